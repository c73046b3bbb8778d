# SPDX-License-Identifier: MPL-2.0
"""The promise of a value, and the values that the library reads where they are."""
from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Type

from errbus import errors
from errbus._errbus import ffi, lib
from errbus._sub import payload

if TYPE_CHECKING:
    from errbus._bus import Bus

# The values that the library reads where they are, by their numbers; see release_owned().
_lent: Dict[int, Any] = {}
_lent_last = 0
_lent_lock = threading.Lock()


def release_owned() -> None:
    numbers = ffi.new("uint64_t[64]")
    count = 64
    while count == 64:
        count = lib.shim_released(numbers, 64)
        for i in range(count):
            _lent.pop(numbers[i], None)


def in_child() -> None:
    """In a forked child, another thread of the parent may hold the lock for ever."""
    global _lent_lock
    _lent_lock = threading.Lock()


def place_of_slot() -> Any:
    """A place for a reserved slot.  If it is dropped with a slot in it, that slot fails."""
    return ffi.gc(ffi.new("struct bus_slot **"), lib.shim_slot_fail)


class Slot:
    """The promise of a value.  If the value does not come, the readers get an error.

    `with` settles the slot in any case: with the value of commit(), with the exception that left
    the block, or with an error of type errbus.abandoned.
    """

    def __init__(self, bus: "Bus", slot: Any, topic: str) -> None:
        """slot: a struct bus_slot **, from place_of_slot()."""
        self._bus = bus
        self._box = [slot]
        self.topic = topic
        self.seq: int = lib.bus_slot_seq(slot[0])

    @property
    def is_settled(self) -> bool:
        """Whether this party knows of an outcome of the slot: then a value comes too late."""
        return not self._box or lib.bus_slot_is_settled(self._box[0][0]) == 1

    def _take(self) -> Any:
        try:
            return self._box.pop()
        except IndexError:
            raise errors.Settled(
                f"slot {self.seq} of {self.topic} was settled by this program before; reserve "
                "another slot"
            ) from None

    def commit(self, value: Any, copy: bool = True) -> None:
        """Settles the slot with bytes, a str (as UTF-8) or a buffer such as a numpy array.

        Only the bytes of an array travel: for its shape and type see errbus.codec.  copy=False: the
        library reads 64 KiB and more where they are, each time it sends them.  They must not change
        before Bus.flush() has returned.  Raises Settled if the slot has an outcome already, TooBig
        above the limit of the slot or the broker, Full after send_timeout, or at once after
        Bus.stop(), and Fenced, Lost or Closed if this party is over.
        """
        data = payload(value)
        if copy or len(data) < 65536:
            self._settle(lambda slot: lib.bus_slot_commit(slot, data, len(data)))
            return
        global _lent_last
        with _lent_lock:
            _lent_last += 1
            number = _lent_last
        release_owned()
        _lent[number] = data
        pointer = ffi.cast("void *", data)
        try:
            self._settle(lambda slot: lib.shim_commit_owned(slot, pointer, len(data), number))
        except BaseException:
            if self._box:  # the slot is open: the library did not take the bytes
                _lent.pop(number, None)
            raise

    def _settle(self, call: Callable[[Any], Any]) -> None:
        slot = self._take()
        try:
            code = self._bus._with_room(lambda: call(slot), self.topic)
        finally:
            if slot[0] != ffi.NULL:  # it is still open, also after an interrupt
                self._box.append(slot)
        if code != lib.BUS_OK:
            errors.raise_code(code)

    def fail(self, error: Optional[BaseException] = None) -> None:
        """Settles the slot with an exception, its traceback and its causes.  None stands for an
        error of type errbus.abandoned.  Raises Settled if this program settled the slot before."""
        handle = errors.to_handle(error)
        lib.bus_slot_fail(self._take(), handle)

    def __enter__(self) -> "Slot":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Any
    ) -> None:
        if self._box:
            self.fail(error)

    def __reduce__(self) -> Any:
        raise TypeError(
            f"slot {self.seq} of {self.topic} is a promise of this process and does not pickle; send "
            "its topic and number"
        )
