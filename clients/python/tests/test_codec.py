# SPDX-License-Identifier: MPL-2.0
"""Codecs: an encoded value decodes to itself, and foreign bytes run no code."""
import collections
import os
import pickle
import random

import numpy as np
import pytest

import errbus
from errbus import codec

VALUES = [None, True, 0, -(2**70), 1.5, "", "ä\0", b"", b"bytes", [], (), {},
          {"w": [1, (2, {"deep": b"x"})], "": None}, [["l", 1], ["a", 0, 8, "<f8", [1]]]]
ARRAYS = [np.zeros(0), np.float32(3), np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4).T,
          np.array(7), np.array([1 + 2j]), np.array([True, False]), np.array(["ab", "c"]),
          np.array(["2026-11-23"], "M8[D]"), np.arange(5, dtype=">i2"), np.zeros((2, 0, 3))]


@pytest.mark.parametrize("value", VALUES)
def test_plain_values_come_back(value):
    assert codec.arrays.decode(codec.arrays.encode(value)) == value
    assert type(codec.arrays.decode(codec.arrays.encode(value))) is type(value)


@pytest.mark.parametrize("coder", [codec.arrays, codec.Pickle(codec.NUMPY)])
@pytest.mark.parametrize("array", ARRAYS)
def test_arrays_come_back(coder, array):
    again = coder.decode(coder.encode({"a": [array, array]}))["a"][1]
    assert np.shape(again) == np.shape(array) and (again == array).all()
    assert np.asarray(again).dtype == array.dtype


@pytest.mark.parametrize("coder", [codec.arrays, codec.Pickle(codec.NUMPY)])
def test_arrays_travel_without_a_copy_on_receive(broker, coder):
    alice, bob = broker.open("alice"), broker.open("bob")
    sent = {"w": np.random.default_rng(0).random(100_000), "round": 7}
    with alice.slot("model") as slot:
        slot.commit(coder.encode(sent), copy=False)
    value = bob.get("alice/model", 0, 10)
    got = coder.decode(value)
    assert got["round"] == 7 and (got["w"] == sent["w"]).all()
    assert np.shares_memory(got["w"], np.frombuffer(value, "u1")) and not got["w"].flags.writeable


@pytest.mark.parametrize("value", [{1: 2}, object(), np.array([object()]), {"a": {1, 2}},
                                   np.zeros(1, [("a", "O")])])
def test_what_arrays_cannot_encode_is_said(value):
    with pytest.raises(errbus.Invalid):
        codec.arrays.encode(value)


def test_a_class_that_is_not_allowed_is_not_called():
    class Harm:
        def __reduce__(self):
            return os.putenv, ("ERRBUS_HARMED", "1")

    value = codec.Pickle([]).encode(Harm())
    with pytest.raises(errbus.Invalid, match="putenv is not on the allow-list"):
        codec.Pickle([*codec.NUMPY, "collections.OrderedDict"]).decode(value)
    ordered = collections.OrderedDict(a=1)
    allowed = codec.Pickle(["collections.OrderedDict"])
    assert allowed.decode(allowed.encode(ordered)) == ordered
    with pytest.raises(errbus.Invalid, match="OrderedDict"):
        codec.Pickle([]).decode(allowed.encode(ordered))


def test_an_array_that_others_made_up_is_refused():
    said = codec.arrays.encode([np.arange(4, dtype="<i8")])
    at = said.index(b'"<i8"')
    for broken in (b'"|O8"', b'"<i4"', b'"xxx"', b'"V99"'):
        said[at : at + 5] = broken
        with pytest.raises(errbus.Invalid):
            codec.arrays.decode(said)


@pytest.mark.parametrize("coder", [codec.arrays, codec.Pickle(codec.NUMPY)])
def test_a_value_that_breaks_off_raises_invalid_and_nothing_else(coder):
    value = bytes(coder.encode({"w": np.arange(100), "t": [1, b"x", ("y", None)]}))
    for cut in range(0, len(value), 7):
        try:
            coder.decode(value[:cut])
        except errbus.Invalid:
            pass
    with pytest.raises(errbus.Invalid):
        coder.decode(pickle.dumps(1))


def test_a_broken_value_of_arrays_raises_invalid_and_nothing_else():
    """This does not hold for Pickle: a broken pickle may ask for much memory."""
    value = codec.arrays.encode({"w": np.arange(100), "t": [1, b"x", ("y", None)]})
    chance = random.Random(7)
    for _ in range(3000):
        broken = bytearray(value)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(value) // 2)] = chance.randrange(256)
        try:
            codec.arrays.decode(broken)
        except errbus.Invalid:
            pass
