"""Both twins of a module at once: the one in Python, and the compiled one if it was built."""

import importlib.util
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.base import twins


def in_python(name: str) -> ModuleType:
    """A second copy of the module, for which no compiled twin was taken."""
    import_module(name)  # first, or what it imports would be without their twins from then on
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(twins, "PURE", True):
        spec.loader.exec_module(module)
    return module


def compiled(name: str) -> ModuleType | None:
    """The twin of the module, beside it with an underscore before its name; None if not built."""
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
