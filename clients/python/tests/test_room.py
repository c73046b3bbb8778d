# SPDX-License-Identifier: MPL-2.0
"""Calls that send: they wait for room while that helps, and for no longer."""
import asyncio
import signal
import threading
import time

import pytest

import errbus
import errbus.aio
from conftest import SlowLink, until

OUTBOX = 65536
MOST = bytes(60000)  # of two values of this size, one waits


@pytest.fixture
def still(broker):
    """Stops the broker; it goes on when the returned function is called, or at the end."""
    def go_on():
        broker.process.send_signal(signal.SIGCONT)

    def stop():
        broker.process.send_signal(signal.SIGSTOP)
        return go_on

    yield stop
    go_on()


def without_room_to_reply(broker, still, **options):
    """A master, a member that holds its request, the request's number, the task with its
    subscription, which ends when it is dropped, and what lets the broker go on."""
    master, member = broker.open("master"), broker.open("member", outbox_bytes=OUTBOX, **options)
    member.publish("w", b"")
    sub = member.subscribe("master/tasks", group="team")
    number = master.ask("tasks", b"")
    task = sub.recv(20)
    member.flush(20)
    go_on = still()
    member.publish("w", MOST)
    return master, member, number, (task, sub), go_on


def test_a_reply_waits_for_room(broker, still):
    master, _, number, (task, _sub), go_on = without_room_to_reply(broker, still)
    timer = threading.Timer(1, go_on)
    timer.start()
    task.reply(MOST)
    timer.join()
    assert bytes(master.get(master.replies, number, 20)) == MOST


def test_a_reply_without_room_raises_and_can_be_repeated(broker, still):
    master, member, number, (task, _sub), go_on = without_room_to_reply(
        broker, still, send_timeout=0.3)
    began = time.monotonic()
    with pytest.raises(errbus.Full, match="member of job default waited 0.3 s for room for a reply"):
        task.reply(MOST)
    assert time.monotonic() - began >= 0.25 and not task.is_settled
    go_on()
    member.flush(20)
    task.reply(MOST)
    assert bytes(master.get(master.replies, number, 20)) == MOST


def test_a_writer_without_room_raises_after_its_time_and_goes_on(broker, still):
    alice = broker.open("alice", outbox_bytes=OUTBOX, send_timeout=0.3)
    alice.publish("w", b"")
    slot = alice.slot("slow")
    alice.flush(20)
    go_on = still()
    alice.publish("w", MOST)
    for call in (lambda: alice.publish("w", MOST), lambda: alice.publish_many("w", [MOST]),
                 lambda: alice.slot("w", value_bytes_max=len(MOST)), lambda: slot.commit(MOST),
                 lambda: slot.commit(bytes(100_000), copy=False), lambda: alice.ask("w", MOST)):
        began = time.monotonic()
        with pytest.raises(errbus.Full, match="waited 0.3 s for room for a value of"):
            call()
        assert time.monotonic() - began >= 0.25
    go_on()
    alice.flush(20)
    slot.commit(MOST)
    assert bytes(alice.get("alice/slow", 0, 20)) == MOST


def test_the_time_begins_anew_while_the_broker_takes_bytes(broker):
    size, rate = 3 << 20, 1 << 20
    with SlowLink(broker.data, bytes_per_s=rate) as link:
        broker.endpoint = f"{broker.endpoint},data={link.address}"
        alice = broker.open("alice", outbox_bytes=1 << 20, send_timeout=0.5)
        longest = 0.0
        for _ in range(2):
            began = time.monotonic()
            alice.publish("w", bytes(size))
            longest = max(longest, time.monotonic() - began)
        assert longest > 0.7, "each value was there at once"
        alice.flush(60)


def spent(call):
    """Seconds of the clock, and of the processor, until the call raises Full."""
    began, before = time.monotonic(), time.process_time()
    with pytest.raises(errbus.Full) as raised:
        call()
    return time.monotonic() - began, time.process_time() - before, str(raised.value)


def test_what_never_fits_is_refused_at_once(broker):
    alice = broker.open("alice", send_timeout=None)
    values = [bytes(1 << 20)] * 65
    alice.publish("w", b"")
    alice.flush(20)
    took, worked, said = spent(lambda: alice.publish_many("w", values))
    assert took < 1 and worked < 0.2
    assert "67108864 bytes at most" in said


def test_a_stopped_bus_waits_for_no_room(broker, still):
    alice = broker.open("alice", outbox_bytes=OUTBOX, send_timeout=None)
    alice.publish("w", b"")
    slot = alice.slot("w")
    alice.flush(20)
    go_on = still()
    alice.publish("v", MOST)
    alice.stop()
    took, worked, _ = spent(lambda: slot.commit(MOST))
    assert took < 1 and worked < 0.2
    go_on()
    until(lambda: committed(slot))


@pytest.mark.parametrize("stops_first", [True, False])
def test_a_stopped_bus_of_asyncio_waits_for_no_room(broker, still, stops_first, monkeypatch):
    turns = []

    def commit(slot, value, copy=True):
        turns.append(value)
        assert len(turns) < 100, "it turns and turns"
        return commit_once(slot, value, copy)

    commit_once = errbus.Slot.commit
    monkeypatch.setattr(errbus.Slot, "commit", commit)

    async def main():
        bus = await errbus.aio.open(broker.endpoint, party="alice", outbox_bytes=OUTBOX,
                                    send_timeout=None)
        await bus.publish("w", b"")
        slot = await bus.slot("w")
        await bus.flush(20)
        go_on = still()
        await bus.publish("v", MOST)
        if stops_first:
            bus.stop()
        committing = asyncio.ensure_future(slot.commit(MOST))
        while not turns:
            await asyncio.sleep(0)
        bus.stop()
        with pytest.raises(errbus.Full):
            await committing
        assert len(turns) <= 1 + (not stops_first)
        go_on()
        await bus.flush(20)
        await slot.commit(MOST)
        await bus.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def committed(slot):
    try:
        slot.commit(MOST)
    except errbus.Full:
        return False
    return True


def test_a_stopped_member_without_room_to_reply_keeps_its_task(broker, still):
    master, member, number, (task, _sub), go_on = without_room_to_reply(
        broker, still, send_timeout=None)
    member.stop()
    with pytest.raises(errbus.Full):
        task.reply(MOST)
    assert not task.is_settled
    go_on()
    until(lambda: replied(task))
    assert bytes(master.get(master.replies, number, 20)) == MOST


def replied(task):
    try:
        task.reply(MOST)
    except errbus.Full:
        return False
    return True
