"""The user's cache directory: what is built or fetched once, and kept."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def kept(name: str, make: Callable[[Path], Path]) -> Path:
    """The file or directory of this name; where it is missing, `make` makes it in a directory.

    A half-made one is never taken for a whole one: nothing is kept if `make` raises.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    found = Path(home) / "barnabas" / name
    if not found.exists():
        found.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=found.parent, prefix="building-") as work:
            made = make(Path(work))
            try:
                os.rename(made, found)
            except OSError:
                if not found.exists():  # otherwise another process was faster
                    raise
    return found
