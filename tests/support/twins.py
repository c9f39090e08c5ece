"""Both versions of a compiled module: its Python source, and the extension if it was built."""

import importlib.util
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from barnabas.base import twins

SOURCE = Path(__file__).parents[2] / "src"


def in_python(name: str) -> ModuleType:
    """A second copy of the module, from its Python source."""
    import_module(name)  # first, so that the copy imports what the module does
    path = SOURCE.joinpath(*name.split(".")).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with patch.object(twins, "PURE", True):
        spec.loader.exec_module(module)
    return module


def compiled(name: str) -> ModuleType | None:
    """The extension of the module; None if it was not built, or Python was asked for."""
    module = import_module(name)
    return module if twins.is_compiled(module) else None


def both(name: str) -> Sequence[Any]:
    """The parameters for a test that holds for either version."""
    twin = compiled(name)
    missing = pytest.mark.skip(reason=f"{name} is not compiled here")
    return (
        pytest.param(in_python(name), id="python"),
        pytest.param(twin, id="compiled", marks=() if twin else missing),
    )
