# SPDX-License-Identifier: MPL-2.0
"""errbus.aio: the package for asyncio, in which a wait needs no thread of its own."""
import asyncio
import concurrent.futures
import threading
import time

import pytest
from conftest import Broker, SlowLink

import errbus
import errbus.aio


def run(call):
    return asyncio.run(asyncio.wait_for(call, 60))


async def until_waiting(bus, count=1):
    """Waits until the loop has asked the bus for so many waits."""
    while len(bus._answers._keys) < count:
        await asyncio.sleep(0)


def test_values_errors_and_subscriptions(broker):
    alice = broker.open("alice")

    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            alice.publish("w", b"0")
            assert bytes(await bob.get("alice/w", 0)) == b"0"
            later = asyncio.ensure_future(bob.get("alice/w", 1))
            again = asyncio.ensure_future(bob.get("alice/w", 1))
            await until_waiting(bob)
            assert not later.done()
            alice.slot("w").fail(ValueError("one"))
            errors = await asyncio.gather(later, again, return_exceptions=True)
            assert all(isinstance(e, errbus.Application) for e in errors)
            assert errors[0] is not errors[1]
            with pytest.raises(errbus.TimedOut):
                await bob.get("alice/w", 2, timeout=0.05)
            alice.publish("w", b"2")
            got = await bob.gather([("alice/w", 0), ("alice/w", 1), ("alice/w", 2)], need=2)
            assert len(got.values) == 2 and len(got.errors) == 1
            with pytest.raises(errbus.GatherFailed) as caught:
                await bob.gather([("alice/w", 0), ("alice/w", 1)])
            assert caught.value.root.message == "one"
            seen = []
            sub = bob.subscribe("alice/w")
            with pytest.raises(errbus.Application):
                async for msg in sub:
                    seen.append(bytes(msg))
            async for msg in sub:
                seen.append(bytes(msg))
                break
            assert seen == [b"0", b"2"]
            with pytest.raises(ValueError):
                async with bob.slot("model"):
                    raise ValueError("no model")
            with pytest.raises(errbus.Application, match="no model"):
                await bob.get("bob/model", 0)

            @bob.worker("alice/tasks", group="team")
            async def echo(task):
                await asyncio.sleep(0)  # another coroutine can run while this one waits
                return bytes(task) + b"!"

            reply = await asyncio.get_running_loop().run_in_executor(
                None, lambda: bytes(alice.request("tasks", b"hello", timeout=10)))
            assert reply == b"hello!"

    run(main())


def test_ten_thousand_waits_on_one_thread(broker):
    alice = broker.open("alice")
    count = 10_000

    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            waits = [asyncio.ensure_future(bob.get("alice/w", i)) for i in range(count)]
            await asyncio.sleep(0)
            assert len(bob._answers._keys) == count
            assert threading.active_count() <= 3  # the one that opened the bus may be about to end
            for wait in waits[1::2]:
                wait.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert len(bob._answers._keys) == count // 2
            alice.publish_many("w", [b"%d" % i for i in range(count)])
            values = await asyncio.gather(*waits[::2])
            assert [bytes(v) for v in values] == [b"%d" % i for i in range(0, count, 2)]
            assert not bob._answers._keys and not bob._answers._is_listening

    run(main())


def test_a_cancelled_wait_leaves_nothing_that_wakes_the_loop(broker):
    alice = broker.open("alice")

    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            wait = asyncio.ensure_future(bob.get("alice/w", 0))
            other = asyncio.ensure_future(bob.get("alice/other", 0))
            await until_waiting(bob, 2)
            wait.cancel()
            await asyncio.sleep(0)
            alice.publish("w", b"x")
            alice.flush(5)
            start = time.process_time()
            await asyncio.sleep(0.3)  # a loop that never sleeps would use as much processor time
            assert time.process_time() - start < 0.2, "it does not spin"
            alice.publish("other", b"y")
            assert bytes(await other) == b"y"

    run(main())


def test_closing_ends_what_waits(broker):
    async def main():
        bob = await errbus.aio.open(broker.endpoint, party="bob")
        wait = asyncio.ensure_future(bob.get("alice/w", 0))
        await until_waiting(bob)
        await bob.close()
        with pytest.raises(errbus.Closed, match="during this wait"):
            await wait

    run(main())


def test_what_is_awaited_after_closing_raises(broker):
    """The descriptor of the answers is closed, and its number may be that of another one."""
    async def main():
        bob = await errbus.aio.open(broker.endpoint, party="bob")
        wait = asyncio.ensure_future(bob.get("alice/w", 0))
        await until_waiting(bob)
        await bob.close()
        with pytest.raises(errbus.Closed):
            await wait
        for _ in range(2):
            with pytest.raises(errbus.Closed, match="before this wait"):
                await bob.get("alice/w", 1)
        bob._answers._listen(True)  # as a look that was put off does
        assert not bob._answers._is_listening
        with pytest.raises(errbus.Closed):
            await bob.publish("w", b"x")

    run(main())


def test_closing_a_subscription_or_a_tap_ends_what_waits(broker):
    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            for end in ("close", "drop"):
                sub = bob.subscribe("alice/w", name="bob")
                waits = [asyncio.ensure_future(sub.recv()) for _ in range(2)]
                while sub._descriptor._fd < 0:
                    await asyncio.sleep(0)
                getattr(sub, end)()
                for wait in waits:
                    with pytest.raises(errbus.Closed):
                        await wait
            tap = await errbus.aio.Tap(broker.endpoint, job="quiet")
            waits = [asyncio.ensure_future(tap.next()) for _ in range(2)]
            while tap._descriptor._fd < 0:
                await asyncio.sleep(0)
            await tap.close()
            for wait in waits:
                with pytest.raises(errbus.Closed):
                    await wait

    run(main())


def test_tasks_that_wait_at_the_same_time_take_turns(broker):
    async def main():
        alice = broker.open("alice")
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            sub = bob.subscribe("alice/w")
            with pytest.raises(errbus.TimedOut):
                await sub.recv(0)
            waits = [asyncio.ensure_future(sub.recv()) for _ in range(3)]
            while sub._descriptor._fd < 0:
                await asyncio.sleep(0)
            with pytest.raises(errbus.TimedOut):
                await sub.recv(0.01)
            alice.publish_many("w", [b"0", b"1", b"2", b"3"])
            assert {bytes(await wait) for wait in waits} == {b"0", b"1", b"2"}
            while True:  # what is there needs no time
                try:
                    assert bytes(await sub.recv(0)) == b"3"
                    break
                except errbus.TimedOut:
                    await asyncio.sleep(0)
            async with errbus.aio.Tap(broker.endpoint) as tap:
                waits = [asyncio.ensure_future(tap.next()) for _ in range(2)]
                while tap._descriptor._fd < 0:
                    await asyncio.sleep(0)
                for party in ("carol", "dave"):
                    broker.open(party).close()
                assert len({(await wait).id for wait in waits}) == 2

    run(main())


# ---- room: a call that waits for it does not stop the loop, in which a reader may make room

VALUE, COUNT = bytes(65536), 64  # together far more than the room of writer, broker and reader
SMALL = dict(outbox_bytes=262_144, inbox_bytes=131_072)


@pytest.fixture
def tight():
    started = Broker("none", "--topic-window", "1M")
    yield started
    started.close()


async def publish(alice, count):
    for _ in range(count):
        await alice.publish("w", VALUE)


async def publish_many(alice, count):
    for _ in range(count // 2):
        await alice.publish_many("w", (VALUE for _ in range(2)))


async def commit(alice, count):
    for _ in range(count):
        async with alice.slot("w") as slot:
            await slot.commit(VALUE)


async def ask(alice, count):
    for _ in range(count):
        await alice.ask("w", VALUE)


@pytest.mark.parametrize("sending", [publish, publish_many, commit, ask])
def test_a_reader_of_the_same_loop_makes_room_for_a_writer(tight, sending):
    async def main():
        async with errbus.aio.open(tight.endpoint, party="alice", **SMALL) as alice:
            async with errbus.aio.open(tight.endpoint, party="bob", **SMALL) as bob:
                options = {"group": "team", "credit": 2} if sending is ask else {}
                async with bob.subscribe("alice/w", **options) as sub:
                    writing = asyncio.ensure_future(sending(alice, COUNT))
                    while not alice._room._waiters:
                        assert not writing.done(), "there is room for all"
                        await asyncio.sleep(0)
                    for _ in range(COUNT):
                        msg = await sub.recv(30)
                        assert msg.value == VALUE
                        msg.fail(ValueError("enough")) if sending is ask else msg.ack()
                    await writing
                    assert alice._room._fd < 0 and not alice._room._waiters

    run(main())


def test_a_writer_without_room_is_told_in_its_time(tight):
    async def main():
        async with errbus.aio.open(tight.endpoint, party="alice", send_timeout=0.2,
                                   **SMALL) as alice:
            async with errbus.aio.open(tight.endpoint, party="bob", **SMALL) as bob:
                async with bob.subscribe("alice/w") as sub:
                    with pytest.raises(errbus.Full, match="a value of w within 0.2 s.*errbus why"):
                        await publish(alice, COUNT)
                    with pytest.raises(errbus.Full):
                        await asyncio.gather(publish(alice, COUNT), publish(alice, COUNT))
                    took = []
                    for _ in range(20):
                        start = time.monotonic()
                        with pytest.raises(errbus.Full):
                            alice.sync.publish("w", VALUE)
                        took.append(time.monotonic() - start)
                    assert min(took) < 0.05, "it does not wait, not for the 100 ms of a slice"
                    alice._room._timeout = None  # it would wait for ever
                    writing = asyncio.ensure_future(publish(alice, COUNT))
                    while not alice._room._waiters:
                        await asyncio.sleep(0)
                    try:
                        await alice.close(0)
                    except errbus.Error:
                        pass  # the broker has not acknowledged all
                    with pytest.raises(errbus.Closed):
                        await writing
                    assert (await sub.recv(30)).value == VALUE

    run(main())


def test_what_never_fits_is_refused_at_once(broker):
    async def main():
        async with errbus.aio.open(broker.endpoint, party="alice", send_timeout=None) as alice:
            with pytest.raises(errbus.Full, match="67108864 bytes at most") as raised:
                await asyncio.wait_for(alice.publish_many("w", [bytes(1 << 20)] * 65), 20)
            assert raised.value.error.type == "errbus.never_fits"
            await alice.publish("w", b"goes on")

    run(main())


def test_the_time_for_room_begins_anew_while_the_broker_takes_bytes(broker):
    async def main():
        with SlowLink(broker.data, bytes_per_s=1 << 19) as link:
            where = f"{broker.endpoint},data={link.address}"
            async with errbus.aio.open(where, party="alice", outbox_bytes=1 << 20,
                                       send_timeout=1.5) as alice:
                longest = 0.0
                for _ in range(2):
                    began = time.monotonic()
                    await alice.publish("w", bytes(3 << 20))
                    longest = max(longest, time.monotonic() - began)
                assert longest > 2, "each value was there at once"
                await alice.flush(40)

    run(main())


def test_a_worker_of_the_same_loop_waits_for_room_to_reply(tight):
    async def main():
        async with errbus.aio.open(tight.endpoint, party="alice", **SMALL) as alice:
            async with errbus.aio.open(tight.endpoint, party="bob", **SMALL) as bob:
                @bob.worker("alice/tasks", group="team", threads=8)
                async def double(task):
                    return VALUE

                replies = [alice.request("tasks", b"%d" % i, timeout=50) for i in range(16)]
                assert {bytes(value) for value in await asyncio.gather(*replies)} == {VALUE}

    run(main())


def test_a_refused_worker_is_told_to_the_loop(broker):
    async def main():
        loop, told = asyncio.get_running_loop(), []
        refused = loop.create_future()

        def tell(_loop, what):
            told.append(what["exception"])
            refused.set_result(None)

        loop.set_exception_handler(tell)
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            for deliveries in (2, 3):
                @bob.worker("alice/tasks", group="team", deliver_max=deliveries)
                async def nothing(task):
                    return None

                await bob.flush(20)
            await refused
        assert [type(one) for one in told] == [errbus.Denied]

    run(main())


def test_a_verdict_that_is_given_up_leaves_no_thread(broker):
    def asking():
        # A thread is listed before it runs, and can be joined only then.
        return [thread for thread in threading.enumerate()
                if thread.name == "errbus-call" and thread.is_alive()]

    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            wait = asyncio.ensure_future(bob.verdict())
            while not asking():
                await asyncio.sleep(0)
            threads = asking()
            wait.cancel()
            for thread in threads:
                await asyncio.get_running_loop().run_in_executor(None, thread.join, 50)
            assert not any(thread.is_alive() for thread in threads)

    run(main())


def test_a_cancelled_barrier_is_left_and_all_of_a_loop_may_wait_at_one(broker):
    async def is_there(admin):
        edges = (await admin.why("pair")).edges
        return any(edge.wait == "barrier" and edge.waiter.name == "alice" for edge in edges)

    async def main():
        # One thread would not do for two that wait.
        asyncio.get_running_loop().set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
        async with errbus.aio.Admin(broker.endpoint) as admin:
            await admin.job_create("pair", min=2, max=2, join_window=0)
            alice = await errbus.aio.open(broker.endpoint, job="pair", party="alice")
            bob = await errbus.aio.open(broker.endpoint, job="pair", party="bob")
            epoch = (await bob.membership(timeout=20)).epoch
            wait = asyncio.ensure_future(alice.barrier(epoch))
            while not await is_there(admin):
                await asyncio.sleep(0.01)
            wait.cancel()
            with pytest.raises(asyncio.CancelledError):
                await wait
            while await is_there(admin):
                await asyncio.sleep(0.01)
            with pytest.raises(errbus.TimedOut):
                await bob.barrier(epoch, 0.1)
            await asyncio.gather(alice.barrier(epoch, 20), bob.barrier(epoch, 20))
            await asyncio.gather(alice.close(), bob.close())

    run(main())


def test_a_cancelled_task_fails_its_slot_as_cancelled(broker):
    async def main():
        async with errbus.aio.open(broker.endpoint, party="bob") as bob:
            async def work():
                async with bob.slot("model"):
                    await bob.get("zoe/w", 0)

            task = asyncio.ensure_future(work())
            await until_waiting(bob)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(errbus.Cancelled):
                await bob.get("bob/model", 0, timeout=5)

    run(main())


def test_admin_and_tap_wait_without_stopping_the_loop(broker):
    async def main():
        async with errbus.aio.Admin(broker.endpoint) as admin, errbus.aio.Tap(broker.endpoint) as tap:
            with pytest.raises(errbus.TimedOut):
                await tap.next(0.01)
            waiting = asyncio.ensure_future(tap.__anext__())
            await asyncio.sleep(0)
            await admin.job_create("pair", min=1, max=1, join_window=0)
            assert (await admin.job("pair")).state == "gathering"
            async with errbus.aio.open(broker.endpoint, party="alice") as alice:
                assert (await waiting).name
                await alice.publish("w", b"x")
                await alice.stands("alice/w", 0, timeout=20)
                number = await alice.ask("tasks", b"x")
                await alice.retract(alice.replies, number, ValueError("given up"), timeout=20)
                with pytest.raises(errbus.RemoteError, match="given up"):
                    await alice.get(alice.replies, number, timeout=20)
                assert not alice.refusals() and alice.failure_fileno() >= 0
                assert alice.run.number == 1 and alice.durability == "memory"
                rows = await admin.status()
            assert ("party", "alice") in {(row.kind, row.name) for row in rows}
            assert (await admin.report("default")).rows == []
            async for event in tap:
                if event.name == "party.ended" or event.party == "alice":
                    break
        with pytest.raises(errbus.Closed):
            await admin.status()

    run(main())
