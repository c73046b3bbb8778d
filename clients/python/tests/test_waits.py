# SPDX-License-Identifier: MPL-2.0
"""Waits in slices: for everybody else each is one wait, and a deadlock can end it."""
import asyncio

import pytest

import errbus
import errbus.aio
from conftest import SlowLink, until

# Longer than any slice: a wait that began anew with each slice never gets so old.
OLD_S = 2.5

WAITS = {
    "unpromised": "bus.get('zoe/nothing', 0)",
    "slot": "bus.gather([('zoe/w', 0), ('zoe/w', 1)])",
    "read": "bus.subscribe('zoe/w').recv()",
    "barrier": "bus.barrier(epoch)",
    "barrier of a time": "bus.barrier(epoch, 3600)",
    "members": "bus.membership(epoch, 3600)",
}


def test_why_says_since_when_each_wait_in_slices_lasts(broker):
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("train", min=7, max=7, join_window=0)
        zoe = broker.open("zoe", job="train")
        slots = [zoe.slot("w"), zoe.slot("w")]
        zoe.flush(20)
        children = [
            broker.program(f"bus = errbus.open(job='train')\nepoch = bus.membership().epoch\n{wait}",
                           party=f"p{number}")
            for number, wait in enumerate(WAITS.values())
        ]

        def are_all_old():
            waits = {(edge.waiter.name, edge.wait): edge for edge in admin.why("train").edges}
            edges = [waits.get((f"p{number}", name.split()[0]))
                     for number, name in enumerate(WAITS)]
            return all(edge and edge.is_blocked and edge.since > OLD_S for edge in edges)

        try:
            until(are_all_old, within=60)
        finally:
            for child in children:
                child.kill()
                child.communicate()
        for slot in slots:
            slot.fail()


WAITER = """
import signal
if "{job}" == "timer":
    signal.setitimer(signal.ITIMER_REAL, 3600)
bus = errbus.open(job="{job}")
bus.membership()
try:
    {wait}
except errbus.RemoteError as error:
    print(error.type, *(cause.type for cause in error.causes), flush=True)
bus.publish("x", b"goes on")
bus.get("{other}/x", 0, 60)
bus.complete()
print("goes on", flush=True)
"""
GET, GATHER = "bus.get('{other}/x', 0)", "bus.gather([('{other}/x', 0)])"
# The wait, and what is raised; None: nothing, for the process may go on by itself.
DEADLOCKS = {
    "get": (GET, "errbus.deadlock errbus.blocked\n"),
    "gather": (GATHER, "errbus.gather errbus.deadlock\n"),
    "timer": (GET, None),
}


def test_a_deadlock_of_two_main_threads_is_ended_if_nothing_else_can(broker):
    children = {}
    with errbus.Admin(broker.endpoint) as admin, errbus.Tap(broker.endpoint, job="timer") as tap:
        for job, (wait, _) in DEADLOCKS.items():
            admin.job_create(job, min=2, max=2, join_window=0, deadlock="fail")
            for party, other in (("alice", "bob"), ("bob", "alice")):
                text = WAITER.format(job=job, other=other, wait=wait.format(other=other))
                children[job, party] = broker.program(text, party=party)
        try:
            for job, (_, raised) in DEADLOCKS.items():
                if raised is not None:
                    told = sorted(children[job, party].communicate(timeout=60)[0]
                                  for party in ("alice", "bob"))
                    assert told == [raised + "goes on\n", "goes on\n"]
            event = next(event for event in tap if event.name == "job.deadlock")
            assert event.error is None and event.text.endswith(": each waits for the next")
        finally:
            for child in children.values():
                child.kill()
                child.communicate()


def test_an_interrupted_barrier_is_left(broker):
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("train", min=2, max=2, join_window=0)
        zoe = broker.open("zoe", job="train")
        child = broker.program(
            """
            import signal
            def leave(number, frame): raise KeyboardInterrupt
            signal.signal(signal.SIGUSR1, leave)
            bus = errbus.open(job="train")
            epoch = bus.membership().epoch
            try:
                bus.barrier(epoch)
            except KeyboardInterrupt:
                print("left", flush=True)
            bus.get("zoe/go", 0)
            bus.barrier(epoch, 20)
            bus.complete()
            print("passed", flush=True)
            """, party="alice")
        epoch = zoe.membership(timeout=20).epoch

        def is_there():
            return any(edge.wait == "barrier" and edge.waiter.name == "alice"
                       for edge in admin.why("train").edges)

        until(is_there)
        child.send_signal(10)
        assert child.stdout.readline() == "left\n"
        until(lambda: not is_there())
        with pytest.raises(errbus.TimedOut):
            zoe.barrier(epoch, 0.1)
        zoe.publish("go", b"")
        zoe.barrier(epoch, 20)
        assert child.communicate(timeout=20)[0] == "passed\n"


@pytest.mark.parametrize("is_aio", [False, True])
def test_a_verdict_comes_over_a_long_link(broker, is_aio):
    """A party that is over asks over a new connection, which takes several round trips of 60 ms."""
    bob = broker.open("bob")
    with SlowLink(broker.endpoint, delay_s=0.03) as link:
        broker.endpoint = f"tcp://{link.address},data={broker.data.split('//')[-1]}"
        alice = broker.open("alice")
        alice.fail(ValueError("no batch"))
        with pytest.raises(errbus.TimedOut):
            alice.verdict(0.5)
        bob.close()
        if is_aio:
            async def main():
                return await errbus.aio.Bus(alice).verdict(60)

            verdict = asyncio.run(main())
        else:
            verdict = alice.verdict(60)
        assert verdict.message == "no batch"
