# SPDX-License-Identifier: MPL-2.0
"""A program names the file of its key; without that, $ERRBUS_KEY does."""
import asyncio

import pytest

import errbus
import errbus.aio


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.setenv("ERRBUS_KEY", "/nonexistent/key")


def test_each_class_takes_the_key_that_it_is_given(locked):
    key = str(locked.folder / "alice")
    with errbus.open(locked.endpoint, party="alice", key=key, timeout=20) as bus:
        bus.publish("w", b"value")
        with errbus.Tap(locked.endpoint, from_id=0, key=key) as tap:
            assert tap.next(20).party == "alice"
        with errbus.Admin(locked.endpoint, key=key) as admin:
            assert "alice" in {row.party for row in admin.status("default") if row.kind == "topic"}


def test_asyncio_takes_it_too(locked):
    key = str(locked.folder / "bob")

    async def run():
        async with errbus.aio.open(locked.endpoint, party="bob", key=key, timeout=20) as bus:
            await bus.publish("w", b"value")
            return bytes(await bus.get("bob/w", 0, 20))

    assert asyncio.run(run()) == b"value"


@pytest.mark.parametrize("call", [errbus.open, errbus.Admin, errbus.Tap])
def test_a_key_that_is_not_there_is_told_with_its_path(locked, tmp_path, call):
    with pytest.raises(errbus.Denied, match=f"asks for a key: .*{tmp_path}/none"):
        call(locked.endpoint, key=str(tmp_path / "none"), timeout=20)
    with pytest.raises(errbus.Denied, match="asks for a key: .*/nonexistent/key"):
        call(locked.endpoint, timeout=20)


def test_a_stranger_s_key_is_told(locked):
    stranger = str(locked.folder / "stranger")
    with pytest.raises(errbus.Denied, match=locked.public["stranger"]):
        errbus.open(locked.endpoint, party="bob", key=stranger, timeout=20)
