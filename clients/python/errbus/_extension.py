# SPDX-License-Identifier: MPL-2.0
"""Loads the extension errbus._errbus, or says why it does not load, and what to do."""
import os
import re

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _reason(error: ImportError) -> str:
    """The text of an ImportError, with what to do."""
    text = str(error)
    if error.name == "errbus._errbus":
        return (
            f"{_FOLDER} has no extension _errbus for this Python: it is a source tree; install it "
            "with 'pip install ./clients/python', and start Python in another folder"
        )
    if error.name == "_cffi_backend":
        return "this Python lacks cffi: install it with 'pip install cffi' or 'apt install python3-cffi'"
    if "libbus.so" in text:
        return (
            f"the library is not found ({text}): install Errbus, or set LD_LIBRARY_PATH to the "
            "folder of libbus.so.0"
        )
    missing = re.search(r"undefined symbol: (bus_\w+)", text)
    if missing:
        return (
            f"the library that is found has no {missing[1]}(), it is older than this package: "
            "install the Errbus with which the package was built, or build the package again"
        )
    return text


try:
    import errbus._errbus  # noqa: F401
except ImportError as problem:
    raise ImportError(f"errbus: {_reason(problem)}", name="errbus") from problem
