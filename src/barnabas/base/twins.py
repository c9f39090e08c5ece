"""The compiled twins of the hot functions: used where they were built, unless BARNABAS_PURE is set.

A module that has a twin defines all of it in Python, and at its end lets the twin, a `.pyx` beside
it, take the place of what both define. `BARNABAS_PURE=1` keeps to Python: to compare the two, or
to find out which of them a fault is in.
"""

import os
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

PURE: Final = os.environ.get("BARNABAS_PURE", "0") not in ("", "0")


def use_compiled(module: dict[str, Any], twin: str, *names: str) -> None:
    """Let these names of `module` be what `twin` has by them, if there is such a module."""
    if not PURE:
        with suppress(ImportError):
            compiled = import_module(twin)
            module.update({name: getattr(compiled, name) for name in names})
