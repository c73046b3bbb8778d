# SPDX-License-Identifier: MPL-2.0
"""What the bus promises, as short stories: tests/sim/scenario_test.c has more of them."""
import pytest
from conftest import Broker

import errbus


def pass_on(bus, source):
    """A step of a pipeline: its own model needs the one of source."""
    with bus.slot("model") as slot:
        slot.commit(bytes(bus.get(source, 0, 20)) + b"!")


def test_a_failure_is_in_place_and_the_topic_goes_on(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    sub = bob.subscribe("alice/w")
    with alice.slot("w") as slot:
        slot.commit(b"0")
    with pytest.raises(ValueError):
        with alice.slot("w"):
            raise ValueError("no batch")
    alice.publish("w", b"2")
    seen = []
    for outcome in sub.outcomes():
        seen.append((sub.slot[1], getattr(outcome, "message", None) or bytes(outcome)))
        if len(seen) == 3:
            break
    assert seen == [(0, b"0"), (1, "no batch"), (2, b"2")]


def test_the_origin_and_the_path_are_kept_over_hops(broker):
    alice, bob, carol, dora = (broker.open(name) for name in ("alice", "bob", "carol", "dora"))
    alice.slot("model").fail(ValueError("nan"))
    for bus, source in (bob, "alice"), (carol, "bob"):
        with pytest.raises(errbus.RemoteError):
            pass_on(bus, f"{source}/model")
    with pytest.raises(errbus.RemoteError) as caught:
        dora.get("carol/model", 0, 20)
    path, error = [], caught.value
    while error is not None:
        path.append(error.party)
        error = error.__cause__
    assert path == ["carol", "bob", "alice"]
    assert (caught.value.root.party, caught.value.root.type) == ("alice", "python.ValueError")


def test_no_topic_waits_for_another(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    sub = bob.subscribe("alice/+")
    late = alice.slot("slow")
    alice.publish("fast", b"f")
    assert bytes(sub.recv(20)) == b"f" and bytes(bob.get("alice/fast", 0, 20)) == b"f"
    late.commit(b"s")
    assert bytes(sub.recv(20)) == b"s"


def test_all_that_a_killed_party_owed_is_settled(broker):
    bob, carol = broker.open("bob"), broker.open("carol")
    child = broker.program("""
        bus = errbus.open(reconnect_grace=0.1)
        bus.publish("w", b"0")
        owed = [bus.slot("w") for _ in range(20)]
        bus.flush()
        os.kill(os.getpid(), 9)
    """, "alice")
    child.communicate(timeout=20)
    ids = set()
    for bus in bob, carol:
        assert bytes(bus.get("alice/w", 0, 20)) == b"0"
        got = bus.gather([("alice/w", number) for number in range(1, 21)], need=0, timeout=20)
        assert len(got.errors) == 20
        ids |= {(error.root.id, error.kind) for error in got.errors.values()}
    assert len(ids) == 1 and ids.pop()[1] == "party_lost", "the same loss for all"


def test_a_broker_that_is_killed_and_started_again_is_a_pause(tmp_path):
    broker = Broker(tmp_path / "journal")
    try:
        alice, bob = broker.open("alice"), broker.open("bob")
        alice.publish("w", b"0")
        due = alice.slot("w")
        alice.flush(20)
        broker.kill()
        broker.start()
        due.commit(b"1")
        assert [bytes(bob.get("alice/w", number, 20)) for number in range(2)] == [b"0", b"1"]
        assert alice.failure is None and bob.failure is None
    finally:
        broker.close()


def test_who_joins_late_gets_all_that_is_kept(broker):
    alice = broker.open("alice")
    alice.publish_many("w", [b"%d" % number for number in range(100)])
    alice.slot("w").fail(ValueError("no batch"))
    alice.complete(20)
    alice.close()
    sub = broker.open("bob").subscribe("alice/w")
    assert [bytes(sub.recv(20)) for _ in range(100)] == [b"%d" % number for number in range(100)]
    with pytest.raises(errbus.Application, match="no batch"):
        sub.recv(20)
    with pytest.raises(errbus.Ended):
        sub.recv(20)
