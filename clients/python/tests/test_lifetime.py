# SPDX-License-Identifier: MPL-2.0
"""Interpreters that end with values under way, forked children that end, memory that stays flat.

TEST_LONG=1: 500 interpreters; 1,000,000 receives and 100,000 raises.  TEST_LARGE=1: a value of 1
GiB.  Then each test prints its figures.
"""
import contextlib
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import until
from test_interrupts import until_in

import errbus
from errbus._errbus import ffi, lib

IN_FLIGHT = """
import errbus, sys, threading, numpy as np
bus = errbus.open(party=sys.argv[1])
slot = bus.slot("open")
bus.publish("w", b"x" * 100)
with bus.slot("owned") as owned: owned.commit(np.zeros(100_000), copy=False)
view = bus.get(sys.argv[1] + "/w", 0)
sub = bus.subscribe("+/w")
kept = next(sub)
held = kept.value
threading.Thread(target=lambda: next(bus.subscribe("zoe/w")), daemon=True).start()
threading.Thread(target=lambda: bus.get("zoe/w", 1), daemon=True).start()
bus.worker("zoe/tasks")(lambda task: None)
ring = [bus, slot, sub, kept, view]; ring.append(ring)
how = int(sys.argv[2]) % 4
if how == 1: raise ValueError("at the end")
if how == 2: bus.close()
if how == 3: del bus, sub
"""


def start(broker, number):
    return subprocess.Popen(
        [sys.executable, "-c", IN_FLIGHT, f"p{number}", str(number)],
        env=dict(os.environ, ERRBUS_SERVER=broker.endpoint),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@pytest.fixture
def tell(capsys):
    """Prints the figures of a long test, though pytest keeps what a test prints."""
    def say(text):
        if os.environ.get("TEST_LONG") or os.environ.get("TEST_LARGE"):
            with capsys.disabled():
                print(f"\n{text}", flush=True)

    return say


def test_interpreters_end_with_things_in_flight(broker, tell):
    count, begun = 500 if os.environ.get("TEST_LONG") else 8, time.monotonic()
    for first in range(0, count, 4):
        for number, child in [(n, start(broker, n)) for n in range(first, first + 4)]:
            _, said = child.communicate(timeout=120)
            assert child.returncode == (1 if number % 4 == 1 else 0), (number, said)
            if number % 4 == 1:
                assert "ValueError: at the end" in said
    tell(f"{count} interpreters ended in {time.monotonic() - begun:.0f} s")


def test_an_exception_that_ends_a_program_fails_its_party(broker):
    bob = broker.open("bob")
    child = broker.program("""
        bus = errbus.open(disclosure="full")
        slot = bus.slot("w")
        raise ValueError("the end")
    """, "alice")
    child.communicate(timeout=20)
    with pytest.raises(errbus.Application, match="the end"):
        bob.get("alice/w", 0, 5)


@pytest.mark.parametrize("how,kind,exit_code", [
    ("raise KeyboardInterrupt", errbus.Terminated, None),
    ("os.kill(os.getpid(), 2); time.sleep(60)", errbus.Terminated, None),
    ("sys.exit(3)", errbus.PartyLeft, None),
    ("sys.exit(0)", errbus.PartyLeft, None),
    ("with bus: sys.exit(3)", errbus.Terminated, 3),
    ("with bus: sys.exit(0)", errbus.PartyLeft, None),
])
def test_how_a_program_ends_is_what_its_readers_get(broker, how, kind, exit_code):
    bob = broker.open("bob")
    child = broker.program(f"bus = errbus.open()\nslot = bus.slot('w')\nbus.flush()\n{how}", "alice")
    child.communicate(timeout=60)
    with pytest.raises(kind) as caught:
        bob.get("alice/w", 0, 20)
    assert caught.value.exit_code == exit_code


@pytest.mark.parametrize("flags", [["-i"], ["-i", "-q"]])
def test_an_error_in_an_interactive_session_does_not_fail_its_party(broker, flags):
    bob = broker.open("bob")
    session = "import errbus\nbus = errbus.open()\nslot = bus.slot('w')\n1 / 0\nbus.flush()\n"
    child = subprocess.run(
        [sys.executable, *flags], input=session, text=True, timeout=60,
        env=dict(os.environ, ERRBUS_SERVER=broker.endpoint, ERRBUS_PARTY="alice"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert "ZeroDivisionError" in child.stderr
    with pytest.raises(errbus.PartyLeft):
        bob.get("alice/w", 0, 20)


def in_child(run, within=20):
    """Runs it in a forked child; its status, or None if it did not end in time."""
    pid = os.fork()
    if pid == 0:
        try:
            status = run()
        except SystemExit as error:
            status = error.code
        except BaseException:
            status = 99
        os._exit(status)
    ended = []

    def is_over():
        ended[:] = os.waitpid(pid, os.WNOHANG)
        return ended[0] == pid

    try:
        until(is_over, within)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    return os.waitstatus_to_exitcode(ended[1])


def closed_count(*calls):
    count = 0
    for call in calls:
        try:
            call()
        except errbus.Closed:
            count += 1
    return count


def test_a_child_that_is_forked_beside_waits_does_not_wait(broker):
    alice = broker.open("alice")
    alice.publish("v", b"")
    sub, tap = alice.subscribe("zoe/w"), errbus.Tap(broker.endpoint, job="nobody")
    admin, task = errbus.Admin(broker.endpoint), alice.subscribe("alice/v").recv(20)
    asked = errbus.Admin(broker.endpoint, timeout=60)

    def ask():
        with contextlib.suppress(errbus.Lost):  # the broker ends before the time is up
            asked.report("default", wait=True)

    waits = [lambda: sub.recv(), lambda: tap.next(), lambda: alice.get("zoe/w", 0), ask]
    threads = [threading.Thread(target=lambda w=wait: closed_count(w), daemon=True)
               for wait in waits]
    for thread in threads:
        thread.start()
    until_in({"in_slices", "interruptible"}, threads)

    def run():
        closed = closed_count(
            lambda: sub.recv(0), lambda: list(sub.outcomes()), lambda: tap.next(0),
            lambda: admin.status(), lambda: asked.status(), lambda: alice.get("zoe/w", 0, 0))
        with sub, tap, admin, asked:
            try:
                admin.ping()
            except errbus.Closed as error:
                closed += "Admin belongs to the parent" in str(error)
        task.ack()
        sub.close()
        alice.close()
        return closed

    assert in_child(run) == 6  # outcomes() of a closed bus just ends
    alice.publish("w", b"the parent goes on")
    assert bytes(alice.get("alice/w", 0, 20)) == b"the parent goes on"
    assert admin.ping().trip >= 0
    for end in (tap.close, asked.close, alice.close, admin.close):
        end()
    for thread in threads[:3]:
        thread.join(20)
        assert not thread.is_alive()


FORKING = """
import threading
bus = errbus.open()
bus.publish("v", b"")
sub, tap, admin = bus.subscribe("zoe/w"), errbus.Tap(job="nobody"), errbus.Admin()
msg, slot, value = bus.subscribe("child/v").recv(20), bus.slot("w"), bus.get("child/v", 0)
for wait in (sub.recv, tap.next, lambda: bus.get("zoe/w", 0)):
    threading.Thread(target=wait, daemon=True).start()
bus.flush()
if os.fork() == 0:
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
slot.commit(b"the parent's")
bus.flush()
os._exit(0)
"""


def test_a_child_that_ends_by_exit_disturbs_nobody(broker):
    bob = broker.open("bob")
    parent = broker.program(FORKING)
    said, wrong = parent.communicate(timeout=120)
    assert said == "7\n", wrong
    assert bytes(bob.get("child/w", 0, 20)) == b"the parent's"


def test_a_forked_child_has_no_bus(broker):
    alice = broker.open("alice")
    sub = alice.subscribe("alice/w")
    slot = alice.slot("w")
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            calls = [lambda: alice.publish("v", b""), lambda: alice.get("alice/w", 0),
                     lambda: sub.recv(0), lambda: slot.commit(b"child")]
            closed = 0
            for call in calls:
                try:
                    call()
                except errbus.Closed:
                    closed += 1
            alice.close()
            status = 0 if closed == len(calls) else 10 + closed
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    slot.commit(b"parent")
    assert bytes(alice.get("alice/w", 0, 5)) == b"parent"


def resident_kib():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


VALUE_BYTES = 16384


def test_memory_is_flat_over_receives_and_raises(broker, tell):
    """Of all outcomes of the second half, a quarter of the values, or of the texts of the errors,
    would be too much."""
    rounds, values, raises = (4000, 250, 25) if os.environ.get("TEST_LONG") else (60, 50, 50)
    alice, bob = broker.open("alice"), broker.open("bob")
    sub = bob.subscribe("alice/w")
    alice.slot("bad").fail(ValueError("bad " * (VALUE_BYTES // 4)))
    at = []
    gc.freeze()  # a collection looks at what the rounds make, and not at all of pytest
    for _ in range(rounds):
        alice.publish_many("w", [b"x" * VALUE_BYTES] * values)
        for _ in range(values):
            assert len(next(sub).value) == VALUE_BYTES
        for _ in range(raises):
            with pytest.raises(errbus.Application):
                bob.get("alice/bad", 0, 5)
        gc.collect()
        at.append(resident_kib())
    gc.unfreeze()
    tell(f"{rounds * values} receives and {rounds * raises} raises: {at[len(at) // 2]} KiB resident "
         f"half way, {at[-1]} KiB at the end")
    least = min(values, raises) * (rounds // 2) * VALUE_BYTES // 1024 // 4
    assert at[-1] - at[len(at) // 2] < least, at


# A process of its own, so that nothing else was in its memory.
LARGE_READER = """
import numpy as np
def kib(field):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field))
with errbus.open() as bus:
    with open("/proc/self/clear_refs", "w") as file: file.write("5")  # the peak begins anew
    idle = kib("VmRSS")
    value = bus.get("alice/w", 0, 250)
    peak = kib("VmHWM")
    array = np.frombuffer(value, "u1")
    assert array[0] == array[-1] == 7
    bus.complete(250)
del value
assert array[len(array) // 2] == 7, "it outlives the bus"
print(len(array), peak - idle)
"""


def test_a_large_value_is_received_without_a_copy(broker, tell):
    size = (1 << 30) if os.environ.get("TEST_LARGE") else (96 << 20)
    writer = broker.program(f"""
        import numpy as np
        with errbus.open(send_timeout=250) as bus:
            with bus.slot("w") as slot: slot.commit(np.full({size}, 7, "u1"), copy=False)
            bus.flush(250)
            sys.stdin.read()
    """, "alice", stdin=subprocess.PIPE)
    reader = broker.program(LARGE_READER, "bob")
    said, wrong = reader.communicate(timeout=300)
    assert reader.returncode == 0, wrong
    writer.communicate("", timeout=20)
    got, grown_kib = map(int, said.split())
    tell(f"a value of {size >> 20} MiB: {grown_kib >> 10} MiB resident above idle")
    shadow = size // 8 if "asan" in os.environ.get("LD_PRELOAD", "") else 0  # of the sanitizer
    assert got == size
    assert grown_kib * 1024 < 1.1 * size + shadow, "once in memory, and the frames on their way"


def test_other_threads_run_while_one_waits(broker):
    """A call that kept the interpreter's lock would let no other thread run, for ever."""
    bob, codes = broker.open("bob"), []

    def wait():
        out, reterr = ffi.new("struct bus_msg **"), ffi.new("struct bus_error **")
        codes.append(bob._call(
            lambda bus: lib.bus_await(bus, b"zoe/w", 0, lib.BUS_FOREVER, out, reterr)))

    thread = threading.Thread(target=wait)
    thread.start()
    with errbus.Admin(broker.endpoint) as admin:
        until(lambda: any(node.name == "zoe" for node in admin.why("default").nodes))
    assert thread.is_alive()
    bob.stop()
    thread.join(20)
    assert codes == [lib.BUS_ECLOSED]
