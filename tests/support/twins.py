"""Both twins of a module: the one in Python, and the compiled one if it was built."""

import importlib.util
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.base import twins


def in_python(name: str) -> ModuleType:
    """A second copy of the module, imported without compiled twins."""
    import_module(name)  # first, so that its imports keep their compiled twins
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(twins, "PURE", True):
        spec.loader.exec_module(module)
    return module


def compiled(name: str) -> ModuleType | None:
    """The compiled twin, with an underscore before the module's name; None if not built."""
    package, _, last = name.rpartition(".")
    try:
        return import_module(f"{package}._{last}")
    except ImportError:
        return None


def both(name: str) -> Sequence[Any]:
    """The parameters for a test that holds for either twin."""
    twin = compiled(name)
    missing = pytest.mark.skip(reason=f"{name} has no compiled twin here: there was no compiler")
    return (
        pytest.param(in_python(name), id="python"),
        pytest.param(twin, id="compiled", marks=() if twin else missing),
    )
