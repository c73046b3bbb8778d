# SPDX-License-Identifier: MPL-2.0
"""What callers give: texts and numbers, as the library takes them."""
from __future__ import annotations

from errbus import errors

MOST = 2**64 - 1


def utf8(text: str) -> bytes:
    """A topic or another text for the library.  Raises Invalid for one that would be cut there."""
    if not isinstance(text, str):
        raise TypeError(f"a name is a str, not {type(text).__name__}")
    try:
        made = text.encode()
    except UnicodeEncodeError:
        raise errors.Invalid(f"{text!r} is no text: a part of it is no character") from None
    if b"\0" in made:
        raise errors.Invalid(f"{text!r} is no name: it has a NUL character")
    return made


def number_of(given: int, what: str, most: int = MOST) -> int:
    """A number from 0 to most.  Raises Invalid for another one: what stands for it in the text."""
    if not 0 <= given <= most:
        raise errors.Invalid(f"{what} is from 0 to {most}, not {given}")
    return given
