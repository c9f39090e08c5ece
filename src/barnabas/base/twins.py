"""The compiled modules of the hot path: loaded where they were built, unless BARNABAS_PURE is set.

A module with a `.pxd` beside it is compiled from its own `.py` source. A `.pyx` beside a `.py` is a
leaf module with two versions of the same functions. Either way the extension has the module's
name, and Python loads it before the source. `BARNABAS_PURE=1` loads the sources: to compare the
two, or to find out which of them a fault is in.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.machinery import FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any, Final

PURE: Final = os.environ.get("BARNABAS_PURE", "0") not in ("", "0")


class SourceFinder:
    """Finds the `.py` file of each module of this package, never an extension beside it."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.startswith("barnabas."):
            for entry in path or ():
                found = FileFinder(entry, (SourceFileLoader, [".py"])).find_spec(name)
                if found is not None:
                    return found
        return None


if PURE:
    sys.meta_path.insert(0, SourceFinder())


def is_compiled(module: ModuleType) -> bool:
    """Return whether this module was loaded from an extension."""
    return not str(module.__file__).endswith(".py")


def use_compiled(module: dict[str, Any], twin: str, *names: str) -> None:
    """Replace these names of `module` by those of `twin`, if that module was built."""
    if not PURE:
        with suppress(ImportError):
            compiled = import_module(twin)
            module.update({name: getattr(compiled, name) for name in names})
