# SPDX-License-Identifier: MPL-2.0
"""The texts of errors: who waited, for what, where, and what to do."""
import asyncio
import glob
import os
import pickle
import re

import pytest

import errbus
import errbus.aio
from errbus import errors

SOURCE = os.environ["ERRBUS_SOURCE"]
WAITS = {
    "bus.get('zoe/w', 7, 0.01)": ["slot 7 of zoe/w", "'errbus why -j pair zoe/w 7'"],
    "bus.stands('zoe/w', 7, 0.01)": ["slot 7 of zoe/w", "'errbus why -j pair zoe/w 7'"],
    "bus.gather([('zoe/w', n) for n in range(3)], timeout=0.01)": ["3 slots", "gathered.missing"],
    "bus.subscribe('zoe/w', 'eve/#').recv(0.01)": ["a value of zoe/w eve/#", "'errbus why pair'"],
    "bus.verdict(0.01)": ["the final verdict", "'errbus verdict pair'"],
    "bus.membership(9, 0.01)": ["a rank in an epoch above 9", "'errbus job show pair'"],
    "bus.barrier(epoch, 0.01)": [r"the barrier of epoch \d+", "'errbus why pair'"],
    "bus.request('tasks', b'', timeout=0.01)": ["has no outcome yet"],
}


@pytest.fixture
def pair(broker):
    """Two members of a created job, and their epoch."""
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("pair", min=2, max=2, join_window=0)
    buses = [broker.open(name, job="pair") for name in ("a", "b")]
    return buses[0], buses[0].membership(timeout=20).epoch


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_whose_time_is_up_says_who_what_and_what_to_do(pair, wait):
    bus, epoch = pair
    with pytest.raises(errbus.TimedOut) as late:
        eval(wait, {"bus": bus, "epoch": epoch})
    told = str(late.value)
    assert told.startswith("party a of job pair waited 0.01 s for "), told
    assert "call again to go on with the wait, or see '" in told
    for word in WAITS[wait]:
        assert re.search(word, told), told


@pytest.mark.parametrize("wait", ["bus.get('zoe/w', 7, 0.01)", "bus.subscribe('zoe/w').recv(0.01)",
                                  "bus.gather([('zoe/w', 7)], timeout=0.01)"])
def test_asyncio_says_the_same(broker, wait):
    async def run():
        async with errbus.aio.open(broker.endpoint, party="a", job="train") as bus:
            with pytest.raises(errbus.TimedOut) as late:
                await eval(wait, {"bus": bus})
            return str(late.value)

    told = asyncio.run(run())
    assert told.startswith("party a of job train waited 0.01 s for "), told
    assert "zoe/w" in told or "1 slots" in told


def test_a_tap_without_an_event_says_so(broker):
    with errbus.Tap(broker.endpoint) as tap, pytest.raises(errbus.TimedOut, match="an event"):
        tap.next(0)


def test_what_is_closed_is_named(broker):
    bus = broker.open("alice")
    slot = bus.slot("w")
    slot.commit(b"")
    with pytest.raises(errbus.Settled, match="slot 0 of alice/w was settled .*; reserve another"):
        slot.commit(b"")
    bus.close()
    with pytest.raises(errbus.Closed, match="party alice of job default is closed.*errbus.open"):
        bus.publish("w", b"")
    admin = errbus.Admin(broker.endpoint)
    admin.close()
    with pytest.raises(errbus.Closed, match="this Admin is closed: open another one"):
        admin.status()


def test_an_option_that_does_not_exist_is_told_with_those_that_do(broker):
    with errbus.Admin(broker.endpoint) as admin:
        with pytest.raises(errbus.Invalid, match="strategy is one of causal, earliest, first"):
            admin.job_create("train", strategy="last")
    with pytest.raises(errbus.Invalid, match="disclosure is one of full, message"):
        broker.open("alice", disclosure="all")


@pytest.mark.parametrize("call", [
    lambda bus, admin: bus.publish("w\0of another", b""),
    lambda bus, admin: bus.publish("w\udc80", b""),
    lambda bus, admin: bus.get("alice/w\0", 0, 0),
    lambda bus, admin: bus.get("alice/w", -1, 0),
    lambda bus, admin: bus.stands("alice/w", 2**64, 0),
    lambda bus, admin: bus.gather([("alice/w", -1)], timeout=0),
    lambda bus, admin: bus.retract("w", -1),
    lambda bus, admin: bus.barrier(-1, 0),
    lambda bus, admin: bus.membership(-1, 0),
    lambda bus, admin: bus.slot("w", seq=-1),
    lambda bus, admin: bus.slot("w", deadline=0),
    lambda bus, admin: bus.slot("w", needs=[("bob/w", -1)]),
    lambda bus, admin: bus.slot("w", value_bytes_max=-1),
    lambda bus, admin: bus.ask("tasks", b"", deadline=-1),
    lambda bus, admin: bus.subscribe("alice/w\0"),
    lambda bus, admin: bus.subscribe("alice/w", from_seq=-1),
    lambda bus, admin: bus.subscribe("alice/w", name="a\0b"),
    lambda bus, admin: bus.subscribe("alice/w", group="team", credit=-1),
    lambda bus, admin: bus.subscribe("alice/w", group="team", deliver_max=2**31),
    lambda bus, admin: errbus.open(outbox_bytes=-1),
    lambda bus, admin: errbus.open(party="alice\0"),
    lambda bus, admin: admin.job("default\0"),
    lambda bus, admin: admin.dead_show("default", "team", -1),
    lambda bus, admin: admin.dead_drop("default", "team", -1),
    lambda bus, admin: admin.why("default", topic="alice/w", seq=-1),
    lambda bus, admin: errbus.Tap(until_id=-1),
])
def test_what_the_library_cannot_take_is_invalid(broker, call):
    alice = broker.open("alice")
    with errbus.Admin(broker.endpoint) as admin, pytest.raises(errbus.Invalid):
        call(alice, admin)
    alice.publish("w", b"the first")
    assert bytes(alice.get("alice/w", 0, 20)) == b"the first"


def test_what_belongs_to_a_process_does_not_pickle_and_says_so(broker):
    alice = broker.open("alice")
    sub, slot = alice.subscribe("alice/w"), alice.slot("v")
    alice.publish("w", b"")
    with errbus.Admin(broker.endpoint) as admin, errbus.Tap(broker.endpoint) as tap:
        for one in (alice, sub, sub.recv(20), slot, admin, tap):
            with pytest.raises(TypeError, match="of this process and does not pickle"):
                pickle.dumps(one)


def test_an_argument_of_another_type_ends_the_call_that_opens(broker):
    child = broker.program("errbus.open(timeout='30')")
    _, wrong = child.communicate(timeout=60)
    assert child.returncode == 1 and "TypeError" in wrong.splitlines()[-1]


def named_in_c():
    """The calls of C that texts of the library name, but for those about a missing argument."""
    found = set()
    for path in glob.glob(f"{SOURCE}/libbus/[as]*/*.c"):
        with open(path) as file:
            for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', file.read()):
                found |= set(re.findall(r"\bbus_\w+\(\)(?! needs)", text))
    return found


def test_a_text_of_the_library_names_calls_of_python(broker):
    missing = named_in_c() - set(errors._NAMES)
    only_in_c = {"bus_sub_recv()", "bus_sub_recv_many()",
                 "bus_key_new()", "bus_key_show()", "bus_key_import()", "bus_key_path()"}
    assert not missing - only_in_c and "bus_refusal()" in errors._NAMES
    for name in errors._NAMES.values():
        place = errbus
        for word in name.rstrip("()").split("."):
            place = getattr(place, word)
    with pytest.raises(errbus.Invalid, match=r"was not created by Admin\.job_create\(\)"):
        broker.open("alice").membership(timeout=20)
