"""Files with keys and passwords, which only their owner can read."""

import os
from pathlib import Path


def write_private(file: Path, data: bytes | str, mode: int = 0o600) -> None:
    """Replace a file at once, whatever the mode of the one before."""
    new = file.with_name(f"{file.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data.encode() if isinstance(data, str) else data)
    new.replace(file)
