# SPDX-License-Identifier: MPL-2.0
"""Tracebacks and attachments that are sealed to an auditor: nobody else reads them."""
import pickle

import pytest
from conftest import make_key

import errbus
from errbus._errbus import lib

pytestmark = pytest.mark.skipif(not lib.bus_can_seal(), reason="libbus was built without libsodium")


def key(folder, name):
    path = str(folder / name)
    return path, make_key(path)


def raised_at(bob, alice):
    def c0nfidential_frame():
        raise ValueError("no batch")

    try:
        c0nfidential_frame()
    except ValueError as error:
        errbus.attach(error, "c0nfidential_name", b"b" * 100_000)
        alice.slot("w").fail(error)
    alice.flush(10)
    with pytest.raises(errbus.Application) as caught:
        bob.get("alice/w", 0, 10)
    return caught.value


def test_a_traceback_is_read_by_its_auditor_alone(broker, tmp_path):
    path, public = key(tmp_path, "auditor")
    other_path, _ = key(tmp_path, "other")
    error = raised_at(broker.open("bob"), broker.open("alice", auditor=public))
    assert error.auditor == public and error.message == "no batch"
    assert error.remote_traceback == "" and error.attachments == ("sealed.1",)
    opened = error.open(path)
    assert "c0nfidential_frame" in opened.remote_traceback
    assert opened.attachments == ("c0nfidential_name",) and opened.id == error.id
    assert error.remote_traceback == ""
    with pytest.raises(errbus.Denied, match="is sealed to " + public):
        error.open(other_path)
    with pytest.raises(errbus.Denied, match="cannot read the key"):
        error.open(str(tmp_path / "none"))
    with errbus.Admin(broker.endpoint) as admin:
        got = admin.open_attachment("default", error, "c0nfidential_name", path)
        assert got == b"b" * 100_000
        assert b"bbbb" not in admin.attachment("default", error.id, "sealed.1")
    with pytest.raises(errbus.Invalid, match="pickled"):
        pickle.loads(pickle.dumps(error)).open(path)


def test_an_opened_error_is_told_again_as_sealed_as_it_came(broker, tmp_path):
    path, public = key(tmp_path, "auditor")
    bob = broker.open("bob", disclosure="full")
    opened = raised_at(bob, broker.open("alice", auditor=public)).open(path)
    try:
        raise RuntimeError("it failed of that") from opened
    except RuntimeError as error:
        bob.slot("w").fail(error)
    with pytest.raises(errbus.Application) as caught:
        broker.open("carol").get("bob/w", 0, 10)
    cause = caught.value.causes[0]
    assert cause.auditor == public and cause.remote_traceback == ""
    assert "c0nfidential_frame" not in caught.value.remote_traceback
    assert "c0nfidential_frame" in cause.open(path).remote_traceback


def test_a_job_names_an_auditor(broker, tmp_path):
    _, public = key(tmp_path, "auditor")
    _, other = key(tmp_path, "other")
    with errbus.Admin(broker.endpoint) as admin:
        admin.job_create("train", auditor=public, join_window=0)
    with pytest.raises(errbus.Denied, match="the auditor of job train is " + public):
        broker.open("alice", job="train", auditor=other)
    broker.open("alice", job="train", auditor=public).close()
    with pytest.raises(errbus.Invalid, match="is not the key of an auditor"):
        broker.open("alice", auditor="ebs")


def test_what_is_not_sealed_does_not_open(broker, tmp_path):
    path, _ = key(tmp_path, "auditor")
    error = raised_at(broker.open("bob"), broker.open("alice", disclosure="full"))
    assert error.auditor == "" and "c0nfidential_frame" in error.remote_traceback
    with pytest.raises(errbus.Invalid, match="has nothing sealed"):
        error.open(path)
