"""Reads a command line that is only options with a value each, by the signature of its command.

Typer does all else, and does this too: but it loads a library that judges values, for which a
broker would start a fifth later and be a third larger. Whatever is not plain is left to it, so
that mistakes are told in one way only.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

_READERS: Final[Mapping[type, Callable[[str], Any]]] = {str: str, Path: Path, int: int}


def plain_options(command: Callable[..., None], arguments: Sequence[str]) -> dict[str, Any] | None:
    """What to call `command` with; None if this is not for us to say."""
    if len(arguments) % 2:
        return None
    kinds = _kinds(command)
    given: dict[str, Any] = {}
    for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
        if flag not in kinds or not _is_plain(value):
            return None
        name, kind, least = kinds[flag]
        if kind is int and (not value.isdecimal() or int(value) < least):
            return None
        if get_origin(kind) is list:
            given.setdefault(name, []).append(value)
        elif kind in _READERS and name not in given:
            given[name] = _READERS[kind](value)
        else:
            return None
    return given


def _is_plain(value: str) -> bool:
    return value.isascii() and value.isprintable() and value != "" and not value.startswith("-")


def _kinds(command: Callable[..., None]) -> dict[str, tuple[str, Any, float]]:
    """By flag: the parameter, its type without None, and the least number it may be."""
    kinds: dict[str, tuple[str, Any, float]] = {}
    for name, hint in get_type_hints(command, include_extras=True).items():
        if name == "return":
            continue
        annotation, option = get_args(hint)
        assert isinstance(option, OptionInfo)
        assert isinstance(annotation, UnionType)
        (kind,) = (each for each in get_args(annotation) if each is not type(None))
        least = option.min if option.min is not None else float("-inf")
        # Beside a type, what is given first is no default but the first of the flags.
        for flag in (option.default, *(option.param_decls or ())):
            kinds[str(flag)] = name, kind, least
    return kinds
