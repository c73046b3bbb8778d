# SPDX-License-Identifier: MPL-2.0
"""The version is the header's, and the extension is made by errbus_build.py."""
import os
import sys

from setuptools import setup

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import errbus_build  # noqa: E402

setup(
    version=errbus_build.version(),
    cffi_modules=["errbus_build.py:ffi"],
    options={"bdist_wheel": {"py_limited_api": "cp39"}},
)
