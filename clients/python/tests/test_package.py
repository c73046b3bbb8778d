# SPDX-License-Identifier: MPL-2.0
"""The package itself: it declares what the headers declare, and each public name has a type."""
import inspect
import os
import re
import shutil
import subprocess
import sys

import pytest

import errbus

SOURCE = os.environ["ERRBUS_SOURCE"]


def without_blanks(text):
    return re.sub(r"\s+", "", text)


def test_the_declarations_equal_the_headers(monkeypatch):
    monkeypatch.setenv("ERRBUS_INCLUDE", f"{SOURCE}/libbus/include")
    monkeypatch.setenv("ERRBUS_LIB", "/nowhere")
    monkeypatch.syspath_prepend(f"{SOURCE}/clients/python")
    import errbus_build

    import errbus._errbus

    count = 0
    for name in errbus_build.HEADERS:
        text = errbus_build.header(name)
        declared = without_blanks(errbus_build.declarations(text))
        plain = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        for match in re.finditer(r"^BUS_API\b([^;]*);", plain, re.M):
            words = re.sub(r"\bBUS_MUST_USE\b|\bBUS_PRINTF\([^)]*\)", "", match.group(1))
            function = re.search(r"\b(bus_[a-z_]+)\(", words).group(1)
            assert without_blanks(words) + ";" in declared, function
            assert hasattr(errbus._errbus.lib, function), function
            count += 1
    assert count > 150


LEFT_OUT = {"metrics.h": "a monitoring system asks errbus web, or errbusd --web"}


def test_each_public_header_is_declared_or_left_out_on_purpose(monkeypatch):
    monkeypatch.setenv("ERRBUS_INCLUDE", f"{SOURCE}/libbus/include")
    monkeypatch.setenv("ERRBUS_LIB", "/nowhere")
    monkeypatch.syspath_prepend(f"{SOURCE}/clients/python")
    import errbus_build

    there = set(os.listdir(f"{SOURCE}/libbus/include/bus"))
    assert there - set(LEFT_OUT) == set(errbus_build.HEADERS) and set(LEFT_OUT) <= there


def test_each_level_of_durability_is_explained():
    from errbus._errbus import ffi, lib

    levels = [getattr(lib, name) for name in dir(lib) if name.startswith("BUS_DURABILITY_")]
    names = {ffi.string(lib.bus_durability_name(level)).decode() for level in levels}
    assert names == set(re.findall(r'"(\w+)"', errbus.Bus.durability.__doc__)) and len(names) > 3


def test_each_name_of_the_library_that_the_package_uses_is_there():
    import errbus._errbus

    folder = f"{SOURCE}/clients/python/errbus"
    for name in os.listdir(folder):
        if name.endswith(".py"):
            with open(f"{folder}/{name}") as file:
                for used in set(re.findall(r"\blib\.(\w+)", file.read())):
                    assert hasattr(errbus._errbus.lib, used), f"{name}: {used}"


def test_the_types_are_complete(tmp_path):
    mypy = shutil.which("mypy", path="/usr/bin")
    if mypy is None:
        pytest.skip("no mypy here")
    if sys.prefix != "/usr":
        pytest.skip("Debian's mypy does not know the types of another numpy")
    said = subprocess.run(
        [mypy, "--python-executable", sys.executable, "--cache-dir", str(tmp_path)],
        cwd=f"{SOURCE}/clients/python", stdout=subprocess.PIPE, text=True)
    assert said.returncode == 0, said.stdout


def public():
    """Each public name with what it is: of the modules, and of their classes."""
    import errbus.aio
    import errbus.codec
    from errbus import admin

    modules = [(one, one.__all__) for one in (errbus, errbus.codec, errbus.aio)]
    own = [name for name, one in vars(admin).items()
           if getattr(one, "__module__", "") == admin.__name__ and not name.startswith("_")]
    modules.append((admin, own))
    for module, names in modules:
        for name in names:
            one = getattr(module, name)
            yield f"{module.__name__}.{name}", one
            for member, value in vars(one).items() if inspect.isclass(one) else ():
                if callable(value) or isinstance(value, (property, classmethod, staticmethod)):
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", value


def test_each_public_name_is_documented():
    lacking, count = [], 0
    for name, one in public():
        if not callable(one) and not isinstance(one, property) or name == "errbus.Outcome":
            continue  # a constant
        count += 1
        fields = f"{getattr(one, '__name__', '')}("  # Python's own text of a NamedTuple
        if not one.__doc__ or one.__doc__.startswith(fields):
            lacking.append(name)
    assert not lacking and count > 140


def test_what_takes_or_gives_a_time_names_its_unit():
    timed = 0
    for name, one in public():
        if not inspect.isfunction(one) or "timeout" not in inspect.signature(one).parameters:
            continue
        timed += 1
        text = one.__doc__
        assert "seconds" in text or re.search(r"[Aa]s (errbus\.|the )?[\w.]+\(\)", text), name
    assert timed > 15


def test_what_may_wait_says_what_it_raises():
    waiting = [(name, one.__doc__) for name, one in public()
               if inspect.isfunction(one) and "timeout" in inspect.signature(one).parameters]
    silent = [name for name, text in waiting
              if "aises" not in text and not re.search(r"[Aa]s (errbus\.|the )?[\w.]+\(\)", text)]
    assert not silent and len(waiting) > 15


def members(one):
    return {name for name in dir(one) if not name.startswith("_")}


def parameters(one):
    """Names, kinds and defaults; of a function, not of what waits for it."""
    return [(p.name, p.kind, p.default) for p in inspect.signature(one).parameters.values()]


@pytest.mark.parametrize("name", ["Admin", "Bus", "Message", "Slot", "Subscription", "Tap"])
def test_asyncio_has_the_same_names(name):
    import errbus.aio

    sync, aio = getattr(errbus, name), getattr(errbus.aio, name)
    attributes = {"party", "job", "sync"}  # that a bus gets when it is made
    assert members(sync) - members(aio) <= {"replies"} and members(aio) - members(sync) <= attributes
    for member in members(sync) & members(aio):
        ours, theirs = getattr(sync, member), getattr(aio, member)
        assert isinstance(ours, property) == isinstance(theirs, property), member
        if callable(ours):
            assert parameters(ours) == parameters(theirs), member


@pytest.mark.parametrize("name", ["Admin", "Tap", "open"])
def test_asyncio_opens_with_the_same_words(name):
    import errbus.aio

    assert parameters(getattr(errbus.aio, name)) == parameters(getattr(errbus, name))


def test_asyncio_gives_types_to_what_it_returns():
    import errbus.aio

    loose = []
    for name in errbus.aio.__all__:
        one = getattr(errbus.aio, name)
        for member, value in [("", one), *(vars(one).items() if inspect.isclass(one) else ())]:
            if not inspect.isfunction(value) or member.startswith("_"):
                continue
            returned = inspect.signature(value).return_annotation
            if returned == "Any" or "[Any]" in str(returned):
                loose.append(f"{name}.{member}")
    assert not loose


def test_asyncio_has_each_class_that_waits():
    """Those that it lacks have nothing to wait for."""
    import errbus.aio

    waits = {name for name in errbus.__all__
             if members(getattr(errbus, name)) & {"get", "recv", "next", "status", "commit", "reply"}
             and not hasattr(getattr(errbus, name), "_fields")}
    assert waits | {"open"} == set(errbus.aio.__all__)


def test_a_registry_can_show_the_readme():
    """It shows README.md without the files beside it: no link may lead to one."""
    with open(f"{SOURCE}/clients/python/README.md") as file:
        text = file.read()
    links = re.findall(r"\]\(([^)]*)\)|^\[[^]]+\]: *(\S+)|(?:src|href)=[\"']([^\"']*)", text, re.M)
    assert all("".join(link).startswith("https://") for link in links), links
    named = set(re.findall(r"[\w./]*(?:INTEROP\.md|examples/\w+\.py|bench/\w+\.sh)", text))
    assert len(named) >= 4 and all(os.path.exists(f"{SOURCE}/{path}") for path in named), named
    assert text.startswith("# ") and len(re.findall(r"^```", text, re.M)) % 2 == 0
