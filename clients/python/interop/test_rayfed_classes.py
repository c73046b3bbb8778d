# SPDX-License-Identifier: MPL-2.0
"""The two classes of errbus.rayfed as RayFed's actors call them, without Ray.  tests/test_rayfed.py
runs them where RayFed is not installed, too.

TEST_LONG=1: 100,000 edges.
"""
import asyncio
import os
import subprocess
import sys
import time
import types

import pytest
from broker import Broker

pytest.importorskip("ray", reason="ray is not installed here")
pytest.importorskip("fed", reason="rayfed is not installed here")
import fed.exceptions  # noqa: E402

import errbus  # noqa: E402
import errbus.rayfed  # noqa: E402

WAIT_S = 3600 if os.environ.get("TEST_LONG") else 180  # a loaded machine
SETTINGS = {"timeout_in_ms": WAIT_S * 1000, "expose_error_trace": True}
AT_ONCE = 64  # sends that RayFed's actor has under way
EDGE_BYTES_MAX = 8192  # of the broker's memory for an edge with a small value
TOLD_S = 1 + 10  # the grace, and a second ten times: a loaded machine


@pytest.fixture(autouse=True)
def broker(monkeypatch):
    # Both ask Ray, which does not run here.
    monkeypatch.setattr(errbus.rayfed, "_was_started_again", lambda: False)
    monkeypatch.setattr(errbus.rayfed.serialization_utils, "_apply_loads_function_with_whitelist",
                        lambda: None)
    with Broker() as started:
        monkeypatch.setenv("ERRBUS_SERVER", started.endpoint)
        yield started


def sender(party, job="job"):
    return errbus.rayfed.Sender({}, party, job, None, dict(SETTINGS))


def receiver(party, job="job"):
    return errbus.rayfed.Receiver("", party, job, None, dict(SETTINGS))


def play(*proxies, steps):
    """Runs the steps in one loop, and stops the proxies behind them."""
    async def run():
        try:
            return await asyncio.wait_for(steps(), WAIT_S)
        finally:
            for proxy in proxies:
                await proxy.stop()

    return asyncio.run(run())


def test_what_the_actors_of_rayfed_ask_is_answered():
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        starting = asyncio.ensure_future(bob.start())
        assert await bob.is_ready() == (True, "") and await alice.is_ready() is True
        assert await alice.send("bob", None, "ping", "ping") == "OK"
        assert await alice.send("bob", None, "ping", "ping") == "OK", "it asks again and again"
        assert await alice.send("bob", {"w": [1, 2]}, "12#0", "13") == "OK"
        assert await bob.get_data("alice", "12#0", "13") == {"w": [1, 2]}
        assert not starting.done(), "this task keeps the actor alive"
        starting.cancel()
        config = await alice.get_proxy_config()
        assert config.timeout_in_ms == SETTINGS["timeout_in_ms"]

    play(alice, bob, steps=steps)


def test_a_receiver_that_comes_late_gets_the_value():
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        assert await alice.send("bob", 7, 1, 2) == "OK"
        assert await bob.is_ready() == (True, "")
        assert await bob.get_data("alice", 1, 2) == 7

    play(alice, bob, steps=steps)


def test_a_receiver_waits_for_a_sender_that_comes_late():
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        wait = asyncio.ensure_future(bob.get_data("alice", 1, 2))
        assert await bob.is_ready() == (True, "") and not wait.done()
        await alice.send("bob", 7, 1, 2)
        assert await wait == 7

    play(alice, bob, steps=steps)


def test_jobs_with_the_same_ids_do_not_meet():
    proxies = [make(party, job) for job in ("one", "two")
               for make, party in ((sender, "alice"), (receiver, "bob"))]

    async def steps():
        for proxy, value in zip(proxies[::2], ("of one", "of two")):
            await proxy.send("bob", value, 1, 2)
        return [await proxy.get_data("alice", 1, 2) for proxy in proxies[1::2]]

    assert play(*proxies, steps=steps) == ["of one", "of two"]


def test_a_failed_task_is_returned_as_rayfed_s_error():
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        cause = ValueError("no batch left")
        await alice.send("bob", fed.exceptions.FedRemoteError("alice", cause), 1, 2)
        await alice.send("bob", fed.exceptions.FedRemoteError("alice", None), 3, 4)
        return [await bob.get_data("alice", *ids) for ids in ((1, 2), (3, 4))]

    told, hidden = play(alice, bob, steps=steps)
    assert isinstance(told, fed.exceptions.FedRemoteError) and told._src_party == "alice"
    assert (told._cause.type, told._cause.message) == ("python.ValueError", "no batch left")
    assert isinstance(hidden, fed.exceptions.FedRemoteError) and hidden._cause is None


def test_a_sender_that_leaves_ends_the_wait_for_what_it_never_sent():
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        wait = asyncio.ensure_future(bob.get_data("alice", 5, 6))
        assert await alice.is_ready() and await bob.is_ready() == (True, "")
        await alice.stop()
        return await wait

    error = play(bob, steps=steps)
    assert isinstance(error, fed.exceptions.FedRemoteError)
    assert error._cause.party == "alice" and error._cause.type == "errbus.never_promised"


def test_who_waits_for_a_killed_party_is_told_with_the_root():
    bob = receiver("bob")
    program = ("import errbus, time\nbus = errbus.open(job='job', party='alice')\n"
               "print('joined', flush=True)\ntime.sleep(3600)")
    alice = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)

    async def steps():
        wait = asyncio.ensure_future(bob.get_data("alice", 5, 6))
        assert await bob.is_ready() == (True, "") and not wait.done()
        alice.kill()
        return time.monotonic(), await wait, time.monotonic()

    try:
        assert alice.stdout.readline() == "joined\n"
        killed, error, told = play(bob, steps=steps)
    finally:
        alice.kill()
        alice.wait()
        alice.stdout.close()
    assert isinstance(error, fed.exceptions.FedRemoteError) and error._src_party == "alice"
    assert (error._cause.root.party, error._cause.root.kind) == ("alice", "party_lost")
    assert told - killed < TOLD_S


def test_a_party_without_an_edge_to_the_failed_one_is_told_its_line():
    proxies = sender("alice"), receiver("bob"), sender("bob"), receiver("carol")
    alice, to_bob, bob, to_carol = proxies

    async def steps():
        try:
            raise ValueError("no batch left")  # the line of alice
        except ValueError as cause:
            await alice.send("bob", fed.exceptions.FedRemoteError("alice", cause), 1, 2)
        found = await to_bob.get_data("alice", 1, 2)
        await bob.send("carol", fed.exceptions.FedRemoteError("bob", found), 2, 3)
        return await to_carol.get_data("bob", 2, 3)

    error = play(*proxies, steps=steps)
    assert isinstance(error, fed.exceptions.FedRemoteError) and error._src_party == "bob"
    root = error._cause.root
    assert (error._cause.party, root.party, root.type) == ("bob", "alice", "python.ValueError")
    assert 'raise ValueError("no batch left")  # the line of alice' in root.remote_traceback


def test_each_edge_is_a_topic_of_the_party_that_sends(broker):
    alice = sender("alice")

    async def steps():
        await alice.send("bob", None, "12#0", 13)
        with errbus.open(broker.endpoint, job="job", party="watch") as watch:
            watch.get("alice/fed/bob/12.0/13", 0, WAIT_S)

    play(alice, steps=steps)


def test_a_bus_whose_run_is_over_is_closed_and_the_call_goes_on_in_the_next_run():
    alice = sender("alice")

    async def steps():
        first = await alice._link.bus()
        over = errbus.Fenced("another party began the next run")
        over.error = types.SimpleNamespace(type="errbus.attempt_over")

        async def fenced(bus):
            if bus is first:
                raise over
            return bus

        async def waiting(bus):
            return await bus.get("zoe/w", 0) if bus is first else bus

        wait = asyncio.ensure_future(alice._link.call(waiting))
        while not first._answers._keys:
            await asyncio.sleep(0)
        second = await alice._link.call(fenced)
        assert second is not first and await wait is second and second.run.number == 2
        with pytest.raises(errbus.Closed):
            first.sync.run
        closed = errbus.Closed("by this program")

        async def ends(bus):
            raise closed

        with pytest.raises(errbus.Closed, match="by this program"):
            await alice._link.call(ends)

    play(alice, steps=steps)


def resident(process):
    with open(f"/proc/{process.pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_the_memory_of_the_broker_for_each_edge_is_bounded(broker, capsys):
    count = 100_000 if os.environ.get("TEST_LONG") else 2_000
    alice, bob = sender("alice"), receiver("bob")

    async def steps():
        room = asyncio.Semaphore(AT_ONCE)

        async def one(number):
            async with room:
                await alice.send("bob", number, f"{number}#0", number + 1)

        await alice.is_ready()
        before = resident(broker.process)
        await asyncio.gather(*(one(number) for number in range(count)))
        grown = resident(broker.process) - before
        last = count - 1
        assert await bob.get_data("alice", f"{last}#0", count) == last
        return grown / count

    bytes_each = play(alice, bob, steps=steps)
    with capsys.disabled():
        print(f"\n{count} edges: {bytes_each:.0f} bytes of the broker's memory each")
    assert bytes_each < EDGE_BYTES_MAX


def test_who_waits_for_the_end_of_a_run_is_in_it_for_the_least_of_the_time(monkeypatch):
    """Else several of them, whose joining takes long, would keep it from its end."""
    opened, rests, joining_s = errbus.rayfed._Link._open, [], 0.2

    async def slowly(link, rule):
        bus = await opened(link, rule)
        await asyncio.sleep(joining_s)
        return bus

    def shortest(low, high):
        rests.append((low, high))
        return low

    monkeypatch.setattr(errbus.rayfed._Link, "_open", slowly)
    monkeypatch.setattr(errbus.rayfed.random, "uniform", shortest)
    alice, bob = sender("alice"), sender("bob")

    async def steps():
        await asyncio.gather(alice.is_ready(), bob.is_ready())
        await alice.stop()
        joining = asyncio.ensure_future(alice.is_ready())
        while len(rests) < 3:
            assert not joining.done(), "bob is in the first run"
            await asyncio.sleep(0.01)
        await bob.stop()
        await joining
        return alice._link._bus.run.number

    assert play(alice, bob, steps=steps) == 2
    for low, high in rests:
        assert low > 0 and high - low >= 4 * joining_s
