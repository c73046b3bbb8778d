# SPDX-License-Identifier: MPL-2.0
"""python3 -m errbus: each thing that it finds, and what it says to do about it."""
import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import sys

import pytest
from conftest import Broker

import errbus
import errbus.aio
from errbus import __main__ as doctor

PACKAGE = os.path.dirname(os.path.abspath(errbus.__file__))


def diagnose(endpoint, status, *words, **environment):
    """Runs the doctor, and returns what it says.  Each of the words is in it."""
    environment.setdefault("ERRBUS_KEY", "/nonexistent/key")
    ran = subprocess.run([sys.executable, "-m", "errbus", *([endpoint] if endpoint else [])],
                         env=dict(os.environ, **environment), stdout=subprocess.PIPE,
                         stderr=subprocess.STDOUT, text=True, timeout=60)
    assert ran.returncode == status, ran.stdout
    for word in words:
        assert word in ran.stdout, ran.stdout
    assert ("to do    " in ran.stdout) == (status != 0), ran.stdout
    return ran.stdout


@contextlib.contextmanager
def listening(answer=b""):
    """An endpoint at which another service listens: it says that much, and then nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        where = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        if not answer:
            yield where
            return
        program = ("import socket, sys\n"
                   f"server = socket.socket(fileno={server.fileno()})\n"
                   "while True:\n    peer = server.accept()[0]\n"
                   f"    peer.sendall({answer!r})\n    peer.close()")
        child = subprocess.Popen([sys.executable, "-c", program], pass_fds=[server.fileno()])
        try:
            yield where
        finally:
            child.kill()
            child.wait()


@contextlib.contextmanager
def unused():
    """An endpoint at which nothing listens, and nothing else can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"tcp://127.0.0.1:{bound.getsockname()[1]}"


def test_all_is_well(broker):
    said = diagnose(broker.endpoint, 0, f"package  {PACKAGE}", f"errbusd {errbus.__version__}",
                    "the control channel answers after", "the data channel answers after",
                    "key      none is used")
    assert said.endswith("well\n") and "libbus.so.0" in said
    assert "well" in diagnose("", 0, ERRBUS_SERVER=broker.endpoint)


def test_a_text_is_no_endpoint():
    diagnose("tcp://", 2, "wrong    ", "HOST:PORT, tcp://HOST:PORT or ipc://PATH")


def test_nothing_listens():
    with unused() as where:
        diagnose(where, 5, where, "nothing listens there", "start errbusd, or set ERRBUS_SERVER")


def test_another_service_listens():
    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
        diagnose(where, 6, where, "what listens there does not speak ZeroMQ",
                 "set ERRBUS_SERVER to where errbusd listens")


def test_what_listens_says_nothing():
    with listening() as where:
        diagnose(where, 5, where, "accepts connections and says nothing",
                 "let errbusd go on if it is stopped")


def test_opening_says_what_listens_in_the_place_of_a_broker():
    async def opened(where):
        async with errbus.aio.open(where, timeout=2):
            pass

    with listening(b"HTTP/1.1 400 Bad Request\r\n\r\n") as where:
        with pytest.raises(errbus.Denied, match="does not speak ZeroMQ") as denied:
            asyncio.run(opened(where))
        assert denied.value.error.type == "errbus.unreachable"
    with listening() as where:
        with pytest.raises(errbus.TimedOut, match="says nothing") as late:
            asyncio.run(opened(where))
        assert late.value.error.type == "errbus.no_greeting"


def test_the_endpoint_is_of_the_data_channel(broker):
    diagnose(broker.data, 2, broker.data, "name the control endpoint of the broker")


def test_the_data_channel_is_out_of_reach(broker):
    with unused() as where:
        port = where.rsplit(":", 1)[1]
        diagnose(f"{broker.endpoint},data={port}", 5, "the control channel answers after",
                 "the data channel does not answer", "let the port of the data channel through")


# ---- keys


def test_a_key_is_known(locked):
    said = diagnose(locked.endpoint, 0, f"key      {locked.public['alice']} of {locked.folder}/alice",
                    f"errbusd {errbus.__version__}", ERRBUS_KEY=str(locked.folder / "alice"))
    assert "ebs_" not in said, "a secret key is never shown"


def test_a_key_may_not_ask_for_status(locked):
    diagnose(locked.endpoint, 0, "this key has no right to ask for its status", "well",
             ERRBUS_KEY=str(locked.folder / "bob"))


def test_the_broker_does_not_know_the_key(locked):
    diagnose(locked.endpoint, 6, "does not know this key", locked.public["stranger"],
             "use a key that the broker knows", ERRBUS_KEY=str(locked.folder / "stranger"))


def test_there_is_no_key(locked):
    diagnose(locked.endpoint, 6, "/nonexistent/key", "make a key with 'errbus key new'")


def test_others_may_read_the_key(locked, tmp_path):
    path = tmp_path / "key"
    shutil.copy(locked.folder / "alice", path)
    path.chmod(0o644)
    diagnose(locked.endpoint, 6, str(path), "make a key with", ERRBUS_KEY=str(path))


def test_a_file_has_no_key(locked, tmp_path):
    path = tmp_path / "key"
    path.write_text("no key\n")
    path.chmod(0o600)
    diagnose(locked.endpoint, 6, str(path), "make a key with", ERRBUS_KEY=str(path))


def test_the_endpoint_lacks_the_key_of_the_broker(locked):
    where = "tcp://" + locked.endpoint.split("@")[1]
    diagnose(where, 6, "the broker asks for a key", "tcp://ebp_...@",
             ERRBUS_KEY=str(locked.folder / "alice"))


def test_the_broker_has_another_key(locked):
    where = f"tcp://{locked.public['stranger']}@" + locked.endpoint.split("@")[1]
    diagnose(where, 6, "has not the key", locked.public["stranger"],
             ERRBUS_KEY=str(locked.folder / "alice"))


def test_the_broker_has_no_key(locked, broker):
    where = f"tcp://{locked.public['stranger']}@" + broker.endpoint.split("//")[1]
    diagnose(where, 6, "uses no keys", ERRBUS_KEY=str(locked.folder / "alice"))


# ---- the journal: what the broker answers stands for its disk


@pytest.mark.parametrize("state", ["full", "refused", "failed"])
def test_the_journal_takes_nothing(broker, monkeypatch, capsys, state):
    ping = errbus.Admin.ping
    monkeypatch.setattr(errbus.Admin, "ping",
                        lambda *words: ping(*words)._replace(journal=state))
    monkeypatch.setattr(sys, "argv", ["errbus", broker.endpoint])
    with pytest.raises(SystemExit) as ended:
        doctor.main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert f"the journal of the broker is {state}: " in told and "'errbus status'" in told


# ---- the library


def preloaded(folder, number):
    """A library that takes the place of libbus in the question for its version."""
    text = ".".join(str(number // unit % 1000) for unit in (1_000_000, 1000, 1))
    (folder / "version.c").write_text(
        f'const char *bus_version(void) {{ return "{text}"; }}\n'
        f"int bus_version_number(void) {{ return {number}; }}\n")
    made = folder / "version.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, folder / "version.c"], check=True,
                   timeout=60)
    before = os.environ.get("LD_PRELOAD")
    return f"{before}:{made}" if before else str(made)


def built_with():
    from errbus._errbus import lib

    return lib.BUS_VERSION_MAJOR * 1_000_000 + lib.BUS_VERSION_MINOR * 1000 + lib.BUS_VERSION_PATCH


@pytest.mark.parametrize("step,status", [(-1, 1), (1, 0), (1000, 0), (1_000_000, 1)])
def test_the_library_is_older_or_newer_than_the_package(broker, tmp_path, step, status):
    words = ["install the package again"] if status else []
    diagnose(broker.endpoint, status, *words, LD_PRELOAD=preloaded(tmp_path, built_with() + step))


def imported(folder, *options, **environment):
    """What Python says when it imports the package in that folder, in one line."""
    ran = subprocess.run(
        [sys.executable, *options, "-m", "errbus"], stdout=subprocess.PIPE, cwd="/",
        stderr=subprocess.PIPE, text=True, timeout=60,
        env=dict(os.environ, PYTHONPATH=str(folder), **environment))
    assert ran.returncode == 1 and ran.stdout == ""
    assert len(ran.stderr.splitlines()) == 1, ran.stderr
    return ran.stderr


def copied(folder, old, new):
    """A copy of the package whose extension has other bytes in one place."""
    shutil.copytree(PACKAGE, folder / "errbus")
    path = folder / "errbus" / "_errbus.abi3.so"
    data = path.read_bytes()
    assert len(old) == len(new) and old in data
    path.write_bytes(data.replace(old, new))
    return folder


def test_the_package_is_a_source_tree():
    told = imported(f"{os.environ['ERRBUS_SOURCE']}/clients/python")
    assert "it is a source tree; install it with 'pip install ./clients/python'" in told


def test_the_library_is_not_found(tmp_path):
    told = imported(copied(tmp_path, b"libbus.so.0", b"libbus.so.X"))
    assert "libbus.so.X" in told and "install Errbus, or set LD_LIBRARY_PATH" in told


def test_the_library_lacks_a_call(tmp_path):
    told = imported(copied(tmp_path, b"\0bus_why_get\0", b"\0bus_why_gex\0"))
    assert "has no bus_why_gex(), it is older than this package" in told


def test_cffi_is_not_installed(tmp_path):
    (tmp_path / "_cffi_backend.py").write_text(
        "raise ModuleNotFoundError('no _cffi_backend', name='_cffi_backend')\n")
    told = imported(f"{tmp_path}:{os.path.dirname(PACKAGE)}")
    assert "lacks cffi: install it with" in told
