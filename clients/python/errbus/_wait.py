# SPDX-License-Identifier: MPL-2.0
"""Waits in slices.  Python runs its signal handlers between two slices, so Ctrl-C works.

After BUS_ETIMEDOUT a call of the library can be repeated and loses nothing.
"""
from __future__ import annotations

import time
from typing import Any, Callable, Optional

from errbus._errbus import lib

SLICE_MS = 100
_FOREVER_S = 10.0**10


def to_ms(seconds: Optional[float]) -> int:
    """Milliseconds for a call of the library; None: BUS_FOREVER."""
    if seconds is None:
        return int(lib.BUS_FOREVER)
    return max(0, int(min(seconds, _FOREVER_S) * 1000 + 0.5))


def in_slices(call: Callable[[int], Any], timeout: Optional[float], again: int = 0) -> int:
    """call(timeout_ms) until it returns another code than BUS_ETIMEDOUT (or again), or the time is
    up: the last code."""
    end = None if timeout is None else time.monotonic() + timeout
    again = again or lib.BUS_ETIMEDOUT
    while True:
        left_ms = SLICE_MS if end is None else to_ms(end - time.monotonic())
        code = int(call(min(left_ms, SLICE_MS)))
        if code != again or (end is not None and left_ms <= SLICE_MS):
            return code
