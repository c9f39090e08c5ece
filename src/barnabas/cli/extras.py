"""Extras: the packages that a command needs, checked before it starts anything."""

from importlib.util import find_spec
from typing import Final

from barnabas.cli.exit_codes import CommandFailed

_NEEDED: Final = ("starlette", "uvicorn", "jinja2", "python_multipart")


def check_console_installed() -> None:
    """Raises CommandFailed if the extra `console` is not installed"""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise CommandFailed(
            f"the console needs {', '.join(missing)}: run pip install 'barnabas[console]'"
        )
