# SPDX-License-Identifier: MPL-2.0
"""Errors as Python shows them: the printed traceback, pickled errors, and a class for each kind."""
import asyncio
import copy
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import traceback

import pytest
from conftest import until

import errbus
from errbus.errors import KINDS, _type_of

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = f"{HERE}/traceback_program.py"


def as_golden(printed):
    """The text without what differs from Python to Python: folders, marks below a line, and the
    lines of the package itself, of which newer ones print several."""
    lines = [line for line in printed.splitlines() if not re.fullmatch(r"[ ~^]+", line)]
    text = "\n".join(lines) + "\n"
    text = re.sub(r'File ".*/(errbus/\w+\.py)", line \d+(, in .*)\n(?:    .*\n)*', r'File "\1"\2\n',
                  text)
    return re.sub(r'File "/.*/(\w+\.py)"', r'File "\1"', text)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="an older Python prints no notes")
def test_the_printed_traceback_has_the_root_first(broker):
    ended = subprocess.run(
        [sys.executable, PROGRAM], env=dict(os.environ, ERRBUS_SERVER=broker.endpoint),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 1 and not ended.stdout
    printed = as_golden(ended.stderr)
    with open(f"{HERE}/traceback.golden") as file:
        golden = file.read()
    assert printed == golden, f"it printed:\n{printed}"


def raised(call, *words):
    with pytest.raises(errbus.RemoteError) as caught:
        call(*words)
    return caught.value


def chain(error):
    """The error as a traceback prints it, without the frames of this process."""
    return "".join(traceback.format_exception(type(error), error, None))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_pickles_with_its_causes(broker, protocol):
    alice, bob = broker.open("alice", disclosure="full"), broker.open("bob", disclosure="full")
    with pytest.raises(ValueError):
        with alice.slot("w"):
            try:
                raise OSError("disk")
            except OSError as error:
                raise ValueError("no batch") from error
    with pytest.raises(errbus.Application):
        with bob.slot("w"):
            bob.get("alice/w", 0, 20)
    error = raised(alice.get, "bob/w", 0, 20)
    again = pickle.loads(pickle.dumps(error, protocol))
    assert chain(again) == chain(error) and again.describe() == error.describe()
    assert again.root is again.__cause__.__cause__.root and again.root.type == "python.OSError"
    assert (again.root.message, type(again.root)) == ("disk", errbus.Application)
    assert str(copy.deepcopy(error)) == str(error)


# ---- a scenario for each kind: it returns the error that came instead of a value -----------------


def fails_with(broker, exception):
    alice, bob = broker.open("alice"), broker.open("bob")
    alice.slot("w").fail(exception)
    return raised(bob.get, "alice/w", 0, 20)


def application(broker):
    return fails_with(broker, ValueError("nan"))


def cancelled(broker):
    return fails_with(broker, asyncio.CancelledError())


def terminated(broker):
    error = fails_with(broker, SystemExit(3))
    assert error.exit_code == 3
    return error


def party_left(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    slot = alice.slot("w")
    alice.close()
    error = raised(bob.get, "alice/w", 0, 20)
    del slot
    return error


def party_lost(broker):
    bob = broker.open("bob")
    child = broker.program("""
        bus = errbus.open(reconnect_grace=0.1)
        slot = bus.slot("w")
        bus.flush()
        os.kill(os.getpid(), 9)
    """, "alice")
    child.communicate(timeout=20)
    assert child.returncode == -signal.SIGKILL
    return raised(bob.get, "alice/w", 0, 20)


def stalled(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    slot = alice.slot("w")
    alice.progress(0.1, "batch 7")
    error = raised(bob.get, "alice/w", 0, 20)
    assert "batch 7" in error.message
    del slot
    return error


def deadline(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    slot = alice.slot("w", deadline=0.1)
    error = raised(bob.get, "alice/w", 0, 20)
    del slot
    return error


def dependency(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    due = alice.slot("w")
    alice.flush(20)
    slot = bob.slot("model", needs=[("alice/w", 0)])
    due.fail(ValueError("nan"))
    error = raised(alice.get, "bob/model", 0, 20)
    assert error.root.message == "nan"
    del slot
    return error


def rejected(broker):
    bob = broker.open("bob")
    slot = bob.slot("model", needs=[("alice/never", 0)])
    error = raised(bob.get, "bob/model", 0, 20)
    assert error.type == "errbus.need_unknown"
    del slot
    return error


def worker_lost(broker):
    bob = broker.open("bob")
    child = broker.program("""
        bus = errbus.open(reconnect_grace=0.1)
        next(bus.subscribe("bob/tasks", group="team", deliver_max=1))
        os.kill(os.getpid(), 9)
    """, "worker")
    error = raised(bob.request, "tasks", b"task", None, 30)
    child.communicate(timeout=20)
    return error


def broker_lost(broker):
    bob = broker.open("bob", broker_lost=0.5)
    broker.process.kill()
    with pytest.raises(errbus.Lost) as caught:
        bob.get("alice/w", 0, 20)
    return caught.value.error


def local(broker):
    with pytest.raises(errbus.Denied) as caught:
        broker.open("bob").publish("alice/w", b"")
    return caught.value.error


SCENARIOS = (application, party_lost, party_left, deadline, dependency, rejected, worker_lost,
             cancelled, terminated, stalled, broker_lost, local)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_each_kind_is_raised_as_its_class(broker, scenario):
    error = scenario(broker)
    assert error.kind == scenario.__name__ and type(error) is KINDS[error.kind]
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.kind == error.kind


# ---- an exception whose own code does not work, or whose attachment is gone ----------------------


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Equal(Exception):
    """No two of its kind can be compared, and what it calls exceptions are none."""

    exceptions = ["one", 2]

    def __eq__(self, other):
        raise RuntimeError("not to be compared")


class Torn(Exception):
    @property
    def exceptions(self):
        raise RuntimeError("closed")


def with_a_file_that_is_gone(folder):
    error = ValueError("no batch")
    file = folder / "log"
    file.write_text("")
    errbus.attach(error, "log", path=str(file))
    errbus.attach(error, "batch", b"b")
    file.unlink()
    return error


ODD = {
    "a file that is gone": with_a_file_that_is_gone,
    "no text": lambda folder: Silent(),
    "no comparison": lambda folder: Equal("no batch"),
    "no group": lambda folder: Torn("no batch"),
    "an exit code of 41 bits": lambda folder: SystemExit(1 << 40),
}


@pytest.mark.parametrize("kind", ODD)
def test_any_exception_settles_its_slot_and_ends_its_party(broker, tmp_path, kind):
    bob, error = broker.open("bob"), ODD[kind](tmp_path)
    with pytest.raises(type(error)) as caught:
        with broker.open("alice", disclosure="full") as alice:
            with alice.slot("w"):
                try:
                    raise Equal("the cause")
                except Equal:
                    raise error
    assert caught.value is error
    got = raised(bob.get, "alice/w", 0, 20)
    assert (got.type, got.party) == (_type_of(type(error)), "alice")
    assert got.causes[0].message == "the cause" and "raise error" in got.remote_traceback
    if kind == "a file that is gone":
        assert got.attachments == ("batch",) and got.message == "no batch"
        assert "attachment 'log' is missing: " in got.remote_traceback.splitlines()[-1]
    if kind == "no text":
        assert "__str__() raises" in got.message
    with pytest.raises(errbus.Closed):
        alice.publish("w", b"")


def test_a_worker_fails_a_request_with_any_exception(broker, tmp_path):
    master, member = broker.open("master"), broker.open("w0")
    kinds = iter(ODD)

    @member.worker("master/tasks", group="team")
    def fail(task):
        raise ODD[next(kinds)](tmp_path)

    for kind in ODD:
        got = raised(master.request, "tasks", b"", None, 20)
        assert got.root.type == _type_of(type(ODD[kind](tmp_path)))


def test_a_party_that_cannot_fail_is_closed_all_the_same(broker, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        with broker.open("alice") as alice:
            monkeypatch.setattr(alice, "fail", raise_interrupt)
            raise ValueError("no batch")
    with pytest.raises(errbus.Closed):
        alice.publish("w", b"")


def raise_interrupt(_error):
    raise KeyboardInterrupt


def test_a_notice_is_returned_and_never_raised(broker):
    bob = broker.open("bob")
    notices = []
    waiting = threading.Thread(target=lambda: pytest.raises(errbus.Closed, bob.get, "alcie/w", 0))
    waiting.start()
    until(lambda: notices.extend(bob.notices()) or notices)
    bob.stop()
    waiting.join()
    assert [(type(one), one.type) for one in notices] == [(errbus.Notice, "errbus.never_joined")]


def test_an_error_leads_to_the_trace_of_its_party(broker):
    trace = "0af7651916cd43dd8448eb211c80319c"
    alice = broker.open("alice", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    bob = broker.open("bob", traceparent="")
    for bus, expected in (alice, trace), (bob, ""):
        bus.slot("w").fail(ValueError("no batch"))
        assert raised(alice.get, f"{bus.party}/w", 0, 20).trace_id == expected


def test_each_kind_has_a_scenario():
    tested = {scenario.__name__ for scenario in SCENARIOS} | {"notice"}
    assert tested == set(KINDS)
    assert all(issubclass(one, errbus.RemoteError) for one in KINDS.values())
