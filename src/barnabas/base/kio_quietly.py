"""Loads kio without the strategies that it registers wherever hypothesis is installed.

A broker has no use for them, and hypothesis takes 0.1 s to import, two seconds and a
new `.hypothesis` in a directory where it never ran. A process that uses hypothesis itself, a test
run, has loaded it before us and gets them all.
"""

import importlib
import sys

if "hypothesis" not in sys.modules and "kio" not in sys.modules:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]  # "not installed", to an import
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]

from kio.schema.errors import ErrorCode

__all__ = ["ErrorCode"]
