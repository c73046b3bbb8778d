# SPDX-License-Identifier: MPL-2.0
"""@errbus.record: writes the exception that ends main() to a file, which a launcher reads."""
from __future__ import annotations

import contextlib
import faulthandler
import functools
import io
import json
import os
import signal
import sys
import threading
import time
import traceback
from typing import Any, Callable, Dict, Iterator, List, Optional, TypeVar, cast

from errbus.errors import RemoteError, _type_of

_Main = TypeVar("_Main", bound=Callable[..., Any])


def _row(error: BaseException, stamp_ns: int) -> Dict[str, Any]:
    trace = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return {
        "message": {
            "message": f"{type(error).__name__}: {error}",
            "extraInfo": {
                "py_callstack": trace,
                "timestamp": str(stamp_ns // 1_000_000_000),
                "timestamp_ns": str(stamp_ns),
                "type": error.type if isinstance(error, RemoteError) else _type_of(type(error)),
            },
        }
    }


def _write_whole(path: str, text: str) -> None:
    """Makes the file whole or not at all, and leaves one that is there.  A launcher may end the
    program in the midst of this, and torchrun ends with an error of its own if the file is not
    JSON."""
    part = f"{path}.{os.getpid()}.{threading.get_ident()}"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        try:
            os.link(part, path)
        except OSError:
            if os.path.exists(path):
                raise
            os.rename(part, path)  # the file system has no links
    finally:
        with contextlib.suppress(OSError):
            os.unlink(part)


def write_error_file(error: BaseException, path: Optional[str] = None) -> None:
    """Writes the error in the form of torch to path, or to the files that $ERRBUS_ERROR_FILE and
    $TORCHELASTIC_ERROR_FILE name.  A file that exists stays as it is: it has the first error.  The
    call raises nothing if it cannot write."""
    text = json.dumps(_row(error, time.time_ns()))
    variables = ("ERRBUS_ERROR_FILE", "TORCHELASTIC_ERROR_FILE")
    named: List[Optional[str]] = [path] if path else [os.environ.get(name) for name in variables]
    for one in dict.fromkeys(name for name in named if name):
        try:
            _write_whole(one, text)
        except OSError:
            pass  # the file exists, or cannot be written; the exception says all anyway


@contextlib.contextmanager
def _saying_where() -> Iterator[None]:
    """Under errbus run, SIGTERM writes the stack of each thread to standard error before it ends the
    program: also of one that hangs in C.  A handler of the program's own stays what it is."""
    is_wanted = (
        "ERRBUS_ERROR_FILE" in os.environ
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    try:
        if is_wanted:
            faulthandler.register(signal.SIGTERM, file=sys.stderr, all_threads=True, chain=True)
    except (AttributeError, io.UnsupportedOperation, RuntimeError, ValueError):
        is_wanted = False  # standard error is no file
    try:
        yield
    finally:
        if is_wanted:
            faulthandler.unregister(signal.SIGTERM)


def record(main: _Main) -> _Main:
    """Decorates main().  An exception that leaves main() is written to the error files of errbus
    run and of torch, and is raised on.  SystemExit with the status 0 is no error.

    errbus run stops a program whose party is over, such as one that made no progress.  That program
    then writes the stack of each of its threads to standard error."""

    @functools.wraps(main)
    def wrapped(*args: Any, **named: Any) -> Any:
        try:
            with _saying_where():
                return main(*args, **named)
        except SystemExit as error:
            if error.code not in (None, 0):
                write_error_file(error)
            raise
        except Exception as error:
            write_error_file(error)
            raise

    return cast(_Main, wrapped)
