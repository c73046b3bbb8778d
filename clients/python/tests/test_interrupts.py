# SPDX-License-Identifier: MPL-2.0
"""Ctrl-C, and close() by another thread, end each wait."""
import signal
import sys
import threading
import time
import traceback

import pytest

import errbus
from conftest import SlowLink, until
from errbus import _wait

SOON_S = 0.2
TRIES = 20  # on a loaded machine some attempts are late, but not all

# Says when the main thread waits in one of these functions of the package.
TELL = """
import threading
def waits(names):
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code.co_name in names: return True
            frame = frame.f_back
def tell(*names):
    def run():
        while not waits(names): time.sleep(0.005)
        print("waits", flush=True)
    threading.Thread(target=run, daemon=True).start()
"""
# The main thread waits again and again, or awaits what waits on another thread.  A thread beside
# it finds out when one of them waits in the package.
WAITING = TELL + """
import errbus.aio, asyncio
def aio(call):
    async def main(): await call(errbus.aio.Bus(bus))
    asyncio.run(main())
bus = errbus.open()
bus.publish("w", b"")  # the first value of a topic waits for the broker itself
sub = bus.subscribe("zoe/w")
tap = errbus.Tap(job="nobody")  # of "default" it may hear that a party is suspect
admin = errbus.Admin(timeout=60)
admin.job_create("pair", min=2, max=2, join_window=0)
pair = [errbus.open(job="pair", party=name) for name in ("a", "b")]
epoch = pair[0].membership().epoch
small = errbus.open(party="small", outbox_bytes=65536, send_timeout=60)
small.publish("w", b"")
held, many, fill = small.slot("held"), bytes(60000), []
closing = [errbus.open(party=f"c{number}") for number in range(20)]
for one in (small, *closing):
    one.publish("w", b"")
    one.flush()
def full(call):
    if not fill: fill.append(small.publish("w", many))
    call()
wait = eval("lambda: " + sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
while True:
    try:
        tell("in_slices", "for_room", "interruptible", "on_thread")
        wait()
        print("it ended by itself", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    if sys.stdin.readline() != "again\\n": break
"""
WAITS = ["bus.get('zoe/w', 0)", "bus.stands('zoe/w', 0)", "bus.gather([('zoe/w', 0)])",
         "next(sub)", "sub.recv(60)", "next(sub.outcomes())", "bus.request('tasks', b'')",
         "bus.verdict()", "(small.fail(), small.verdict())", "pair[0].membership(epoch)",
         "pair[0].barrier(epoch)", "tap.next()",
         "aio(lambda bus: bus.verdict())", "aio(lambda bus: bus.stands('zoe/w', 0))",
         "admin.report('pair', wait=True)",
         "errbus.open('tcp://127.0.0.1:9', party='late', timeout=60)"]
# The program waits for a broker that does not answer.
SILENT = ["(bus.publish('w', b''), bus.flush())", "(bus.publish('w', b''), bus.complete())",
          "(bus.publish('w', b''), bus.retract('w', 0))",
          "(closing[-1].publish('w', b''), closing.pop().close(60))",
          "full(lambda: small.publish('w', many))", "full(lambda: small.publish_many('w', [many]))",
          "full(lambda: small.slot('v', value_bytes_max=len(many)))",
          "full(lambda: held.commit(many))", "full(lambda: small.request('tasks', many))",
          "admin.status()", "admin.job('train')",
          "errbus.Admin(timeout=60)", "errbus.Tap(timeout=60)"]


@pytest.mark.parametrize("wait", WAITS + SILENT)
def test_ctrl_c_ends_a_wait_within_200_ms(broker, wait):
    child = broker.program(WAITING.replace("sys.argv[1]", repr(wait)), stdin=-1)
    assert child.stdout.readline() == "ready\n"
    if wait in SILENT:
        broker.process.send_signal(signal.SIGSTOP)
    took = []
    try:
        while not took or (min(took) > SOON_S and len(took) < TRIES):
            print("again", file=child.stdin, flush=True)
            assert child.stdout.readline() == "waits\n"
            start = time.monotonic()
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            took.append(time.monotonic() - start)
    finally:
        if wait in SILENT:
            broker.process.send_signal(signal.SIGCONT)
        child.kill()
        child.communicate()
    assert min(took) <= SOON_S, took


# A value behind another one of 64 MiB, over a link that takes 4 s for that.  The broker accepts a
# piece of 1 MiB in each slice.
SLOW = TELL + """
bus = errbus.open(outbox_bytes=1 << 20, send_timeout=60)
model = bytes(2 << 20)
slot = bus.slot("held")
bus.publish("w", bytes(64 << 20))
while True:
    tell("in_slices", "for_room")
    try:
        {wait}
        print("sent", flush=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    sys.stdin.readline()
"""


@pytest.mark.parametrize("wait", ["bus.publish('w', model)", "slot.commit(model)",
                                  "slot.commit(model, copy=False)", "bus.ask('tasks', model)"])
def test_ctrl_c_ends_a_wait_for_room_while_bytes_go_through(broker, wait):
    with SlowLink(broker.data, bytes_per_s=16 << 20) as link:
        broker.endpoint = f"{broker.endpoint},data={link.address}"
        child = broker.program(SLOW.format(wait=wait), stdin=-1)
        took = []
        try:
            while not took or (min(took) > SOON_S and len(took) < TRIES):
                assert child.stdout.readline() == "waits\n"
                start = time.monotonic()
                child.send_signal(signal.SIGINT)
                assert child.stdout.readline() == "interrupted\n"
                took.append(time.monotonic() - start)
                print(file=child.stdin, flush=True)
        finally:
            child.kill()
            child.communicate()
    assert min(took) <= SOON_S, took


# What comes while a signal is pending.  The handler raises when the call of the library returns,
# which has the outcome already.
RECEIVING = {
    "value": ("bus.subscribe('zoe/w')", "bytes(source.recv(60).value)"),
    "iterator": ("bus.subscribe('zoe/w')", "bytes(next(source).value)"),
    "task": ("bus.subscribe('zoe/w', group='team')",
             "(lambda task: (task.delivery, bytes(task.value), task.ack())[1])(source.recv(60))"),
    "error": ("bus.subscribe('zoe/w')", "str(next(source.outcomes())).encode()"),
    "event": ("errbus.Tap(job='default')", "event(source)"),
}
RECEIVER = """
import signal
armed = []
def interrupt(*_):
    if armed:
        armed.clear()
        raise KeyboardInterrupt
    os.write(1, b"interrupted\\n")
signal.signal(signal.SIGINT, interrupt)
def event(tap):
    while True:
        one = tap.next(60)
        if one.name == "slot.failed": return one.error.message.encode()
bus = errbus.open()
source = {source}
bus.flush()
os.write(1, b"ready\\n")
while True:
    armed.append(True)
    try:
        said = {call}
    except KeyboardInterrupt:
        os.write(1, b"interrupted\\n")
        continue
    armed.clear()
    os.write(1, b"said " + said + b"\\n")
"""


@pytest.mark.parametrize("kind", RECEIVING)
def test_what_comes_beside_a_signal_is_not_lost(broker, kind):
    source, call = RECEIVING[kind]
    zoe = broker.open("zoe")
    child = broker.program(RECEIVER.format(source=source, call=call))
    late = threading.Timer(60, child.kill)
    late.start()
    assert child.stdout.readline() == "ready\n"
    try:
        for number in range(10):
            child.send_signal(signal.SIGINT)
            if kind in ("error", "event"):
                zoe.slot("w").fail(ValueError(f"number {number}"))
            else:
                zoe.publish("w", f"number {number}")
            lines = sorted((child.stdout.readline(), child.stdout.readline()))
            assert lines[0] == "interrupted\n" and f"number {number}" in lines[1], (number, lines)
    finally:
        late.cancel()
        child.kill()
        child.communicate()


# The broker stands still, so there is no room.
PROMISER = TELL + """
bus = errbus.open(outbox_bytes=65536, send_timeout=60)
bus.publish("w", b"")
early = bus.slot("early")
bus.flush()
def commit():
    with early: early.commit(bytes(60000))
print("ready", flush=True)
sys.stdin.readline()
bus.publish("w", bytes(60000))
tell("in_slices", "for_room")
try:
    {wait}
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.readline()
"""
# What waits for room; whether there is room while the signal is pending; the slot.
PROMISING = {
    "a slot": ("bus.slot('late', value_bytes_max=60000)", True, "child/late"),
    "a commit": ("commit()", False, "child/early"),
}


@pytest.mark.parametrize("kind", PROMISING)
def test_what_is_promised_beside_a_signal_ends_with_an_error(broker, kind):
    wait, has_room, topic = PROMISING[kind]
    bob = broker.open("bob")
    child = broker.program(PROMISER.format(wait=wait), stdin=-1)
    assert child.stdout.readline() == "ready\n"
    try:
        broker.process.send_signal(signal.SIGSTOP)
        print(file=child.stdin, flush=True)
        assert child.stdout.readline() == "waits\n"
        child.send_signal(signal.SIGINT)
        if not has_room:
            assert child.stdout.readline() == "interrupted\n"
        broker.process.send_signal(signal.SIGCONT)
        if has_room:
            assert child.stdout.readline() == "interrupted\n"
        with pytest.raises(errbus.Terminated):
            bob.get(topic, 0, 20)
    finally:
        broker.process.send_signal(signal.SIGCONT)
        child.kill()
        child.communicate()


def test_no_interrupt_leaves_a_party_that_nobody_closes(broker):
    """An interrupt at each line of open(): the name is free afterwards."""
    codes = {function.__code__ for function in (errbus.open, errbus.Bus.__init__)}
    codes.add(_wait.interruptible.__code__)

    def is_free():
        try:
            errbus.open(broker.endpoint, party="late", timeout=20).close()
        except errbus.Denied:
            return False
        return True

    for line in range(200):
        left = [line]

        def trace(frame, event, _arg):
            if frame.f_code not in codes:
                return None
            if event == "line":
                left[0] -= 1
                if left[0] < 0:
                    sys.settrace(None)
                    raise KeyboardInterrupt
            return trace

        bus = None
        sys.settrace(trace)
        try:
            bus = errbus.open(broker.endpoint, party="late", timeout=20)
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
        if bus is not None:
            bus.close()
            break
        until(is_free)
    assert bus is not None and line > 20, "it never came to an end"


def until_in(names, threads, within=20):
    """Waits until each of the threads is in a function with one of these names."""
    def is_in(frame):
        while frame is not None:
            if frame.f_code.co_name in names:
                return True
            frame = frame.f_back
        return False

    def stack(thread):
        frame = sys._current_frames().get(thread.ident)
        lines = traceback.format_stack(frame) if frame is not None else ["  it has ended\n"]
        return f"{thread.name}:\n" + "".join(lines)

    end = time.monotonic() + within
    while not all(is_in(sys._current_frames().get(thread.ident)) for thread in threads):
        if time.monotonic() >= end:
            pytest.fail(f"not all are in {names}:\n" + "".join(map(stack, threads)))
        time.sleep(0.001)


def test_a_thread_that_never_waits_is_told_with_its_stack():
    over = threading.Thread(target=int)
    over.start()
    over.join()
    with pytest.raises(pytest.fail.Exception, match="has ended") as told:
        until_in({"in_slices"}, [over, threading.current_thread()], within=0.01)
    assert "until_in" in str(told.value)


@pytest.mark.parametrize("wait", ["bus.get('alice/w', 0)", "bus.stands('alice/w', 0)",
                                  "bus.gather([('alice/w', 0)])", "bus.verdict()",
                                  "bus.subscribe('alice/w').recv()"])
def test_close_ends_the_waits_of_other_threads(broker, wait):
    bus = broker.open("bob")
    ended = []

    def run():
        with pytest.raises(errbus.Closed):
            eval(wait, {"bus": bus})
        ended.append(True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    until_in({"in_slices", "on_thread"}, threads)
    bus.close()
    for thread in threads:
        thread.join(20)
    assert ended == [True] * 4


def test_two_threads_may_close_at_once(broker):
    for _ in range(20):
        bus = broker.open("bob")
        threads = [threading.Thread(target=bus.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        with pytest.raises(errbus.Closed):
            bus.publish("w", b"")


def test_closing_a_tap_and_an_admin_waits_for_calls_under_way(broker):
    tap, admin = errbus.Tap(broker.endpoint), errbus.Admin(broker.endpoint)
    ended = []

    def follow():
        ended.append(list(tap))

    thread = threading.Thread(target=follow)
    thread.start()
    until_in({"in_slices"}, [thread])
    tap.close()
    thread.join(20)
    assert len(ended) == 1
    broker.process.send_signal(signal.SIGSTOP)
    asking = threading.Thread(target=admin.status)
    asking.start()
    until_in({"interruptible"}, [asking])
    admin.close()
    broker.process.send_signal(signal.SIGCONT)
    asking.join(20)
    assert not asking.is_alive()
    with pytest.raises(errbus.Closed):
        admin.status()
