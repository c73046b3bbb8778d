# SPDX-License-Identifier: MPL-2.0
"""Values of Python as the bytes of a value, and back.  The bus itself carries bytes alone.

    with bus.slot("model") as slot:
        slot.commit(codec.arrays.encode({"w": w, "round": 7}), copy=False)
    model = codec.arrays.decode(bus.get("alice/model", 0))

arrays: numpy arrays, numbers, texts and bytes in dicts, lists and tuples.  Decoding runs no code, so
this codec suits values from other organisations.  A decoded array is read-only and not copied: its
memory is that of the value.  Pickle: objects of the classes of an allow-list.
"""
from __future__ import annotations

import io
import json
import pickle
import re
import struct
from typing import Any, Dict, FrozenSet, Iterable, List, Tuple

import numpy as np

from errbus.errors import Invalid

__all__ = ["NUMPY", "Pickle", "arrays"]

_HEAD = struct.Struct("<8sQ")  # magic number, and the length of the header that follows
_ALIGN = 64  # alignment of each buffer in the value
_KINDS = "biufcmMSU"  # kinds of arrays whose elements are plain bytes
_DTYPE = re.compile(rf"[<>|][{_KINDS}][0-9]+(\[[0-9A-Za-z]+\])?")  # as numpy.dtype.str writes them
_DEEP = 64
_PLAIN = (bool, int, float, str, type(None))
_ARRAY = "errbus.codec._array"

#: For Pickle: arrays.  Numpy's own names do not belong on an allow-list: a hostile pickle makes an
#: array of objects with them, whose elements are any addresses.
NUMPY = (_ARRAY,)


def _aligned(size: int) -> int:
    return (size + _ALIGN - 1) // _ALIGN * _ALIGN


def _join(magic: bytes, header: bytes, buffers: List[memoryview]) -> bytearray:
    """The bytes of a value: each buffer is copied once."""
    at = _aligned(_HEAD.size + len(header))
    made = bytearray(at + sum(_aligned(one.nbytes) for one in buffers))
    _HEAD.pack_into(made, 0, magic, len(header))
    made[_HEAD.size : _HEAD.size + len(header)] = header
    for one in buffers:
        made[at : at + one.nbytes] = one
        at += _aligned(one.nbytes)
    return made


def _split(magic: bytes, value: Any) -> Tuple[bytes, memoryview]:
    """The header of a value, and the bytes of its buffers."""
    view = memoryview(value).toreadonly().cast("B")
    if len(view) < _HEAD.size or bytes(view[:8]) != magic:
        raise Invalid(
            f"{len(view)} bytes are no value of the codec {magic.split(bytes(1))[0].decode()}: "
            "decode them as their writer encoded them"
        )
    size = _HEAD.unpack_from(view)[1]
    if size > len(view) - _HEAD.size:
        raise Invalid(f"the value is cut: its header has {size} bytes, and it has {len(view)} in all")
    return bytes(view[_HEAD.size : _HEAD.size + size]), view[_aligned(_HEAD.size + size) :]


def _buffer(view: memoryview, at: Any, size: Any) -> memoryview:
    if type(at) is not int or type(size) is not int or not 0 <= at <= at + size <= len(view):
        raise Invalid(f"the value is cut or broken: it has no {size!r} bytes at {at!r}")
    return view[at : at + size]


def _a(kind: type, told: Any) -> Any:
    """The same object, if it is of this class."""
    if type(told) is not kind:
        raise Invalid(f"the value is broken: it has {told!r} in the place of a {kind.__name__}")
    return told


def _plain(array: Any, codec: str) -> Any:
    """The array, contiguous.  Raises Invalid if its elements are not plain bytes."""
    if array.dtype.kind not in _KINDS or array.dtype.hasobject:
        raise Invalid(f"{codec} encodes no array of {array.dtype}: give it a type of fixed size")
    return np.ascontiguousarray(array).reshape(-1)


def _array_of(buffer: Any, name: Any, shape: Any) -> Any:
    """An array over these bytes, which is not copied."""
    if type(name) is not str or _DTYPE.fullmatch(name) is None:
        raise Invalid(f"the value has an array of {name}, whose elements are not plain bytes")
    if not all(type(one) is int and one >= 0 for one in shape):
        raise Invalid(f"the value has an array of the shape {shape!r}")
    return np.frombuffer(buffer, np.dtype(name)).reshape(shape)


class _Arrays:
    """The codec of arrays; the text of the module describes it."""

    _MAGIC = b"arrays\0\1"

    def encode(self, value: Any) -> bytearray:
        """The bytes of a value.  Each array is copied once.  Raises Invalid for an object of another
        class, an array of objects, and more than 64 levels."""
        buffers: List[memoryview] = []
        header = json.dumps(self._told(value, buffers, [0], 0), separators=(",", ":"))
        return _join(self._MAGIC, header.encode("utf-8", "surrogatepass"), buffers)

    def decode(self, value: Any) -> Any:
        """The value of these bytes.  An array has its shape and type, and is not copied.  Raises
        Invalid for bytes that encode() did not make."""
        header, buffers = _split(self._MAGIC, value)
        try:
            return self._made(json.loads(header.decode("utf-8", "surrogatepass")), buffers)
        except (ValueError, TypeError, ArithmeticError, LookupError, RecursionError) as error:
            raise error if isinstance(error, Invalid) else Invalid(f"the value is broken: {error}")

    def _told(self, value: Any, buffers: List[memoryview], at: List[int], deep: int) -> Any:
        """A value as JSON.  A list stands for an array or a container: its kind, then its content."""
        if deep > _DEEP:
            raise Invalid(f"arrays encodes {_DEEP} levels of containers at most")
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, (bytes, bytearray, memoryview)):
            return ["b", *self._kept(memoryview(value).cast("B"), buffers, at)]
        if isinstance(value, (np.ndarray, np.generic)):
            array = _plain(value, "arrays")
            kept = self._kept(array.view("u1").data, buffers, at)
            return ["a", *kept, array.dtype.str, list(np.shape(value))]
        if isinstance(value, (list, tuple)):
            kind = "l" if isinstance(value, list) else "t"
            return [kind, [self._told(one, buffers, at, deep + 1) for one in value]]
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise Invalid(
                        f"arrays encodes a dict whose keys are str, not {type(key).__name__}"
                    )
            told = {key: self._told(one, buffers, at, deep + 1) for key, one in value.items()}
            return ["d", told]
        raise Invalid(
            f"arrays encodes no {type(value).__name__}: it takes arrays, numbers, texts, bytes, "
            "dicts, lists and tuples; Pickle takes other classes"
        )

    @staticmethod
    def _kept(view: memoryview, buffers: List[memoryview], at: List[int]) -> Tuple[int, int]:
        first = at[0]
        buffers.append(view)
        at[0] += _aligned(view.nbytes)
        return first, view.nbytes

    def _made(self, told: Any, buffers: memoryview) -> Any:
        if isinstance(told, _PLAIN):
            return told
        kind, *rest = _a(list, told)
        if kind == "b":
            at, size = rest
            return bytes(_buffer(buffers, at, size))
        if kind == "a":
            at, size, name, shape = rest
            return _array_of(_buffer(buffers, at, size), name, _a(list, shape))
        (inside,) = rest
        if kind in ("l", "t"):
            made = [self._made(one, buffers) for one in _a(list, inside)]
            return made if kind == "l" else tuple(made)
        if kind == "d":
            return {key: self._made(one, buffers) for key, one in _a(dict, inside).items()}
        raise Invalid(f"arrays knows no kind {kind!r}")


arrays = _Arrays()


class Pickle:
    """Pickles whose classes and functions are all on an allow-list.

    Unpickling calls the classes and functions that the pickle names.  So allow only what is harmless
    with any arguments: a class of data, and not os.system, numpy.ndarray or numpy.dtype.  codec.NUMPY
    allows arrays of numbers, texts and bytes, which are not copied.  The list keeps foreign code out.
    A hostile pickle may still ask for much memory, and set attributes of the classes on the list.

        values = codec.Pickle([*codec.NUMPY, "app.Gradients"])
    """

    _MAGIC = b"pickle\0\1"

    def __init__(self, allow: Iterable[str]) -> None:
        self.allow: FrozenSet[str] = frozenset(allow)

    def encode(self, value: Any) -> bytearray:
        """The bytes of a value.  Large buffers are copied once.  Raises as pickle.dumps(), and Invalid
        for an array of objects or of fields."""
        buffers: List[memoryview] = []

        def keep(one: pickle.PickleBuffer) -> None:
            buffers.append(one.raw())

        file = io.BytesIO()
        _Pickler(file, protocol=5, buffer_callback=keep).dump(value)
        text = file.getvalue()
        sizes = struct.pack(f"<Q{len(buffers)}Q", len(buffers), *(one.nbytes for one in buffers))
        return _join(self._MAGIC, sizes + text, buffers)

    def decode(self, value: Any) -> Any:
        """The value of these bytes.  Raises Invalid for a class that is not on the list, and for
        bytes that encode() did not make."""
        header, view = _split(self._MAGIC, value)
        try:
            count = struct.unpack_from("<Q", header)[0]
            if count > len(header) // 8:
                raise Invalid(f"the value is cut: its header has no room for {count} sizes")
            sizes = struct.unpack_from(f"<{count}Q", header, 8)
            buffers, at = [], 0
            for size in sizes:
                buffers.append(_buffer(view, at, size))
                at += _aligned(size)
            return _Unpickler(self.allow, header[8 * (count + 1) :], buffers).load()
        except Invalid:
            raise
        except Exception as error:  # a broken pickle may raise anything
            raise Invalid(f"the value is broken: its pickle raised {error!r}") from error


class _Array:
    """Makes the arrays of a pickle, each time as a new object that has no attribute: a pickle could
    set them, and the next pickle would find them."""

    __slots__ = ()

    def __call__(self, buffer: Any, name: Any, shape: Any) -> Any:
        """shape None: a scalar."""
        if type(buffer) not in (memoryview, bytes) or type(name) is not str:
            raise Invalid("the value has an array without bytes, or without a type")
        if shape is None:
            return _array_of(buffer, name, ())[()]
        return _array_of(buffer, name, _a(tuple, shape))

    def __reduce__(self) -> str:
        return "_array"


_array = _Array()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if type(value) is np.ndarray:
            shape = value.shape
        elif isinstance(value, np.generic):
            shape = None
        else:
            return NotImplemented
        array = _plain(np.asarray(value), "Pickle")
        return _array, (pickle.PickleBuffer(array.view("u1")), array.dtype.str, shape)


class _Unpickler(pickle.Unpickler):
    def __init__(self, allow: FrozenSet[str], text: bytes, buffers: List[memoryview]) -> None:
        super().__init__(io.BytesIO(text), buffers=buffers)
        self._allow = allow

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.{name}" not in self._allow:
            raise Invalid(
                f"{module}.{name} is not on the allow-list of this Pickle: add the name if it is "
                "harmless with any arguments"
            )
        return _Array() if f"{module}.{name}" == _ARRAY else super().find_class(module, name)
