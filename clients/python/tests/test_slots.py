# SPDX-License-Identifier: MPL-2.0
"""Values and errors: what one party promises, and what the others get."""
import pickle
import time

import numpy as np
import pytest
from conftest import until

import errbus


def test_a_value_arrives_without_a_copy_and_outlives_the_bus(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    sent = np.arange(1000, dtype="f4")
    alice.publish("grads", sent)
    value = bob.get("alice/grads", 0, 5)
    array = np.frombuffer(value, "f4")
    assert np.shares_memory(array, np.frombuffer(value, "f4"))
    assert value.readonly
    bob.close()
    del value
    assert (array == sent).all()


def test_who_opens_again_begins_the_next_run_or_goes_on(broker):
    with broker.open("alice") as alice:
        alice.publish("w", b"one")
    with broker.open("alice") as alice:
        alice.publish("w", b"two")
        assert bytes(alice.get("alice/w", 0, 20)) == b"two"
    with broker.open("alice", run_rule="continue") as alice:
        alice.publish("w", b"three")
        assert bytes(alice.get("alice/w", 0, 20)) == b"two"
        assert bytes(alice.get("alice/w", 1, 20)) == b"three"


@pytest.mark.parametrize("value", [b"", b"x", "text", bytearray(b"ab"), memoryview(b"abc"),
                                   np.arange(10)[::2], np.zeros((3, 4)).T])
def test_any_buffer_is_a_value(broker, value):
    alice = broker.open("alice")
    alice.publish("w", value)
    expected = value.encode() if isinstance(value, str) else bytes(memoryview(value))
    assert bytes(alice.get("alice/w", 0, 5)) == expected


def test_what_is_no_value_is_said(broker):
    with pytest.raises(TypeError, match="not dict"):
        broker.open("alice").publish("w", {})


def test_an_exception_fails_the_slot_and_goes_on(broker):
    alice, bob = broker.open("alice", disclosure="full"), broker.open("bob")
    with pytest.raises(ValueError, match="no batch"):
        with alice.slot("grads"):
            try:
                {}["row"]
            except KeyError as error:
                raise ValueError("no batch") from error
    with pytest.raises(errbus.Application) as caught:
        bob.get("alice/grads", 0, 5)
    error = caught.value
    assert (error.type, error.message, error.party) == ("python.ValueError", "no batch", "alice")
    assert error.topic == "alice/grads" and error.seq == 0
    assert error.root.type == "python.KeyError" and error.__cause__ is error.causes[0]
    assert 'raise ValueError("no batch") from error' in error.remote_traceback
    assert '{}["row"]' in error.root.remote_traceback
    assert error.find("python.KeyError") is error.root and error.find("deadline") is None


def test_each_raise_has_an_exception_of_its_own(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    alice.slot("w").fail(RuntimeError("no"))
    errors = []
    for _ in range(2):
        with pytest.raises(errbus.Application) as caught:
            bob.get("alice/w", 0, 5)
        errors.append(caught.value)
    assert errors[0] is not errors[1] and errors[0].id == errors[1].id


def test_errors_pickle_and_buses_do_not(broker):
    alice, bob = broker.open("alice", disclosure="full"), broker.open("bob", disclosure="full")
    alice.slot("w").fail(OSError("disk"))
    with pytest.raises(errbus.Application) as caught:
        bob.get("alice/w", 0, 5)
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is errbus.Application and str(again) == str(caught.value)
    assert again.root is again and again.remote_traceback == caught.value.remote_traceback
    slot = bob.slot("model")
    slot.fail(again)  # it has no object of the bus any more, and is written anew
    with pytest.raises(errbus.Application, match="disk"):
        alice.get("bob/model", 0, 5)
    with pytest.raises(TypeError, match="does not pickle"):
        pickle.dumps(bob)


def test_a_killed_party_is_raised_where_its_value_was_due(broker):
    bob = broker.open("bob")
    child = broker.program("bus = errbus.open(); s = bus.slot('grads'); bus.flush()\n"
                           "print('ready', flush=True); time.sleep(60)", "alice")
    assert child.stdout.readline() == "ready\n"
    start = time.monotonic()
    child.kill()
    with pytest.raises(errbus.PartyLost) as caught:
        bob.get("alice/grads", 0, 20)
    assert time.monotonic() - start < 10  # a second of grace, ten times
    assert caught.value.party == "alice" and caught.value.root is caught.value
    child.communicate()


def test_a_slot_fails_by_its_deadline_and_the_wait_by_its_timeout(broker):
    alice, bob = broker.open("alice"), broker.open("bob")
    slot = alice.slot("w", deadline=0.3)
    with pytest.raises(errbus.TimedOut) as own:
        bob.get("alice/w", 0, 0.05)
    assert isinstance(own.value, TimeoutError)
    with pytest.raises(errbus.Deadline) as remote:
        bob.get("alice/w", 0, 5)
    assert not isinstance(remote.value, TimeoutError)
    assert slot is not None


def test_a_slot_that_needs_a_failed_one_fails_with_its_error(broker):
    alice, bob, carol = broker.open("alice"), broker.open("bob"), broker.open("carol")
    due = alice.slot("grads")
    alice.flush(5)
    model = bob.slot("model", needs=[("alice/grads", 0)])
    due.fail(ValueError("nan"))
    with pytest.raises(errbus.Dependency) as caught:
        carol.get("bob/model", 0, 5)
    assert caught.value.root.party == "alice" and caught.value.root.type == "python.ValueError"
    until(lambda: model.is_settled)
    with pytest.raises(errbus.Settled):
        model.commit(b"late")


def test_an_abandoned_slot_and_a_second_settlement(broker):
    alice = broker.open("alice")
    with alice.slot("w"):
        pass
    with pytest.raises(errbus.Application) as caught:
        alice.get("alice/w", 0, 5)
    assert caught.value.type == "errbus.abandoned"
    slot = alice.slot("w")
    slot.commit(b"x")
    with pytest.raises(errbus.Settled):
        slot.commit(b"y")


def test_a_value_is_committed_without_a_copy(broker):
    alice = broker.open("alice")
    array = np.arange(100_000, dtype="u4")
    with alice.slot("w") as slot:
        slot.commit(array, copy=False)
    alice.flush(10)
    assert (np.frombuffer(alice.get("alice/w", 0, 5), "u4") == array).all()
    alice.close()
    from errbus import _slot
    _slot.release_owned()
    assert not _slot._lent


def test_gather_needs_n_of_m(broker):
    a, b, c = (broker.open(name) for name in "abc")
    slots = [(f"{name}/w", 0) for name in "abc"]
    a.publish("w", b"A")
    b.slot("w").fail(ValueError("b is broken"))
    c.publish("w", b"C")
    got = a.gather(slots, need=2, timeout=5)
    assert {s[0]: bytes(v) for s, v in got.values.items()} == {"a/w": b"A", "c/w": b"C"}
    assert got.errors[("b/w", 0)].message == "b is broken" and not got.missing
    with pytest.raises(errbus.GatherFailed) as caught:
        a.gather(slots, timeout=5)
    assert caught.value.root.party == "b" and caught.value.gathered.errors
    with pytest.raises(errbus.TimedOut) as late:
        a.gather(slots + [("c/w", 9)], need=3, timeout=0.2)
    assert late.value.gathered.missing == [("c/w", 9)]
    assert len(a.gather(slots, enough=1, timeout=5).values) >= 1
    with pytest.raises(errbus.Invalid):
        a.gather(slots, need=4)


def test_codes_are_classes_with_a_reason(broker):
    alice = broker.open("alice")
    with pytest.raises(errbus.Denied) as denied:
        alice.publish("bob/w", b"")
    assert isinstance(denied.value, PermissionError) and "bob" in str(denied.value)
    with pytest.raises(errbus.Invalid):
        alice.get("grads", 0)
    with pytest.raises(errbus.Denied, match="is party alice of job default already"):
        broker.open("alice")
    alice.slot("w", seq=3)
    with pytest.raises(errbus.Settled, match="3"):
        alice.slot("w", seq=3)


def test_a_block_that_raises_fails_its_party(broker):
    bob = broker.open("bob")
    with pytest.raises(RuntimeError):
        with broker.open("alice", disclosure="full") as alice:
            slot = alice.slot("w")
            alice.flush(5)
            raise RuntimeError("all is lost")
    with pytest.raises(errbus.Application, match="all is lost") as caught:
        bob.get("alice/w", 0, 5)
    assert "raise RuntimeError" in caught.value.root.remote_traceback
    assert slot is not None
    with broker.open("carol") as carol:
        carol.publish("w", b"x")
    with pytest.raises(errbus.Closed):
        carol.publish("w", b"x")
    carol.close()


def commit_in_vain(slot):
    """Commits a slot that has failed, of which this party may know already."""
    try:
        slot.commit(b"too late")
    except errbus.Settled:
        pass


def with_a_late_value(broker, alice):
    slot = alice.slot("w", deadline=0.05)
    with pytest.raises(errbus.Deadline):
        broker.open("bob").get("alice/w", 0, 20)
    commit_in_vain(slot)
    return "deadline"


def with_an_unknown_need(broker, alice):
    commit_in_vain(alice.slot("w", needs=[("bob/never", 0)]))
    return "errbus.need_unknown"


@pytest.mark.parametrize("refused", [with_a_late_value, with_an_unknown_need])
@pytest.mark.parametrize("end", ["close", "with"])
def test_the_end_of_a_bus_tells_what_the_broker_refused(broker, refused, end):
    with pytest.raises(errbus.Settled, match=r"sent \([12] in all\): .*alice/w#0") as told:
        if end == "close":
            alice = broker.open("alice")
            why = refused(broker, alice)
            alice.close()
        else:
            with broker.open("alice") as alice:
                why = refused(broker, alice)
    assert told.value.error.find(why) and told.value.__cause__ is told.value.error
    with pytest.raises(errbus.Closed):
        alice.publish("w", b"")
    alice.close()
    broker.open("alice").close()  # the party has left


def test_the_end_of_a_bus_is_silent_of_what_was_told(broker):
    with broker.open("alice") as alice:
        with_an_unknown_need(broker, alice)
        with pytest.raises(errbus.Settled):
            alice.flush(20)
    with pytest.raises(ValueError, match="says more"):
        with broker.open("alice") as alice:
            with_an_unknown_need(broker, alice)
            raise ValueError("says more")
