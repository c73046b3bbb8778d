# SPDX-License-Identifier: MPL-2.0
"""Codecs: an encoded value decodes to itself, and foreign bytes run no code."""
import collections
import json
import os
import pickle
import random
import struct
import subprocess
import sys

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


class Call:
    """Its pickle calls that function."""

    def __init__(self, function, *args, state=None):
        self.made = (function, args) if state is None else (function, args, state)

    def __reduce__(self):
        return self.made


ADDRESSES = b"A" * 64
OBJECTS = np.dtype("O")
HOSTILE = {
    "an array of objects at any address": Call(np.ndarray, (1,), OBJECTS, ADDRESSES),
    "a state that brings objects": Call(
        np.ndarray, (1,), "V8", ADDRESSES, state=(1, (1,), OBJECTS, False, [None])),
    "a type with forged flags": Call(
        np.dtype, "V8", False, True, state=(3, "|", None, None, None, -1, -1, 63)),
    "a fast reader with any type": Call(np.frombuffer, ADDRESSES, OBJECTS),
    "our function, and a type of objects": Call(codec._array, ADDRESSES, "O", (8,)),
    "our function, and fields of objects": Call(codec._array, ADDRESSES, "i8,O", (4,)),
    "our function, and a type that is none": Call(codec._array, ADDRESSES, OBJECTS, (8,)),
    "our function, and more than there is": Call(codec._array, ADDRESSES, "u1", (1 << 40,)),
    "our function, and less than nothing": Call(codec._array, ADDRESSES, "u1", (-1,)),
    "our function, and a number for bytes": Call(codec._array, 1 << 40, "u1", (8,)),
    "our function, with a state": Call(codec._array, ADDRESSES, "u1", (64,), state=(
        1, (1 << 40,), "u1", False, ADDRESSES)),
}
VICTIM = """
import sys
from errbus import Invalid, codec
try:
    value = codec.Pickle(codec.NUMPY).decode(bytes.fromhex(sys.stdin.read()))
    print(repr(value))
except Invalid as error:
    print("Invalid", error)
"""


def decoded_in_a_child(text):
    """A hostile value may end the process that reads it."""
    value = codec._join(codec.Pickle._MAGIC, struct.pack("<Q", 0) + text, [])
    return subprocess.run([sys.executable, "-c", VICTIM], input=value.hex(), text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_array_is_refused(name):
    child = decoded_in_a_child(pickle.dumps(HOSTILE[name], protocol=5))
    assert (child.returncode, child.stdout[:7]) == (0, "Invalid"), child


def test_a_pickle_cannot_change_how_arrays_are_made():
    text = (pickle.PROTO + bytes([5]) + pickle.GLOBAL + b"errbus.codec\n_array\n" + pickle.NONE
            + pickle.EMPTY_DICT + pickle.MARK + pickle.UNICODE + b"changed\n" + pickle.NONE
            + pickle.SETITEMS + pickle.TUPLE2 + pickle.BUILD + pickle.STOP)
    child = decoded_in_a_child(text)
    assert (child.returncode, child.stdout[:7]) == (0, "Invalid"), child


@pytest.mark.parametrize("array", [np.array([object()]), np.zeros(1, [("a", "O")]),
                                   np.zeros(1, [("a", "i4")])])
def test_what_pickle_cannot_encode_is_said(array):
    with pytest.raises(errbus.Invalid, match="Pickle encodes no array"):
        codec.Pickle(codec.NUMPY).encode([array])


def test_a_scalar_comes_back_as_a_scalar():
    coder = codec.Pickle(codec.NUMPY)
    for scalar in (np.float32(3), np.int64(-1), np.str_("x"), np.datetime64("2026-11-23")):
        again = coder.decode(coder.encode(scalar))
        assert type(again) is type(scalar) and again == scalar


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


PLAIN = [None, True, 0, -1, 1 << 31, 1 << 63, 1 << 70, 1.5, "", "x", "l", "b"]
HEADERS = [
    ["l"], ["l", "ab"], ["l", {"a": 1}], ["l", [], []], ["t", None], ["d", 5], ["d"], ["d", [1]],
    {}, {"l": 1}, [], [[]], ["b", 0], ["b", 0, 8, 8], ["b", 0.0, 8], ["b", 0, 1 << 70], ["x", []],
    *(["a", 0, 8, "<f8", shape] for shape in (None, 1, "1", {}, [1 << 70], [-1], [1.0], [[1]], [2])),
    *(["a", 0, 8, name, [1]] for name in (
        None, 8, "f8", "f8,f8", "(2,i4", "(2,)f4", "|O8", "|V8", "<f3", "<U0", "<U99999999999",
        "<M8[x]", "<M8[99999999999999999999D]")),
]


def with_header(told):
    header = json.dumps(told).encode("utf-8", "surrogatepass")
    return codec._join(codec.arrays._MAGIC, header, [memoryview(bytes(8))])


@pytest.mark.parametrize("told", HEADERS, ids=json.dumps)
def test_a_header_that_encode_does_not_write_is_refused(told):
    for header in (told, ["l", [told]], ["d", {"w": told}]):
        with pytest.raises(errbus.Invalid):
            codec.arrays.decode(with_header(header))


def mutant(told, chance):
    """The header with a part of it left out, doubled, or with something else in its place."""
    if chance.random() < 0.2:
        return chance.choice([*PLAIN, [], {}, *HEADERS])
    if isinstance(told, dict):
        return {key: mutant(one, chance) for key, one in told.items()}
    if not isinstance(told, list):
        return told
    made = [mutant(one, chance) for one in told]
    if made and chance.random() < 0.2:
        del made[chance.randrange(len(made))]
    if chance.random() < 0.2:
        made.insert(chance.randrange(len(made) + 1), chance.choice(PLAIN))
    return made


def test_a_mutated_header_of_arrays_raises_invalid_and_nothing_else():
    told = ["d", {"w": ["a", 0, 8, "<f8", [1]], "t": ["t", [1, ["b", 0, 8], ["l", ["y", None]]]]}]
    chance, decoded = random.Random(7), 0
    for _ in range(3000):
        try:
            codec.arrays.decode(with_header(mutant(told, chance)))
            decoded += 1
        except errbus.Invalid:
            pass
    assert decoded > 10
