"""A directory of small files, on a local disk or in any file system that Arrow supports."""

import contextlib
import os
import posixpath
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from barnabas.base.randomness import Random
from barnabas.cli.exit_codes import Misused

_AMBIGUOUS: Final = frozenset("%#?*[]{}")


class Directory:
    """Reads and replaces files by their path below the directory, which is created on demand."""

    def __init__(self, place: str) -> None:
        """`place` is a path or a URI.

        Raises  Misused if Arrow has no file system for it, or if it has a character that Spark,
                Arrow and the libraries of the formats do not all read in the same way
        """
        fs: Any = import_module("pyarrow.fs")
        if odd := " ".join(sorted(set(place) & _AMBIGUOUS)):
            raise Misused(f"{place}: the path must not contain {odd}")
        local = place.removeprefix("file://")
        self._is_local = "://" not in local
        if self._is_local:
            self._fs, self._base = fs.LocalFileSystem(), str(Path(local).absolute())
            self.uri = f"file://{self._base}"
            return
        self.uri = place.rstrip("/")
        try:
            # Spark calls S3 s3a://, Arrow calls it s3://.
            self._fs, self._base = fs.FileSystem.from_uri(self.uri.replace("s3a://", "s3://", 1))
        except (ValueError, OSError) as error:
            raise Misused(f"{place}: {str(error).splitlines()[0]}") from None

    def __str__(self) -> str:
        return str(self._base) if self._is_local else self.uri

    def uri_of(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def write(self, path: str, text: str) -> None:
        """Replace a file atomically. On a local disk it is fsynced on return."""
        new = self._path(f"{path}.new")
        self._fs.create_dir(posixpath.dirname(new), recursive=True)
        with self._fs.open_output_stream(new) as stream:
            stream.write(text.encode())
        self._sync(new)
        self._fs.move(new, self._path(path))
        self._sync(posixpath.dirname(new))

    def read(self, path: str) -> str | None:
        """Return the text of a file, or None if it does not exist."""
        try:
            with self._fs.open_input_stream(self._path(path)) as stream:
                return str(stream.read().decode())
        except FileNotFoundError:
            return None

    def create(self, path: str, text: str) -> bool:
        """Create a file with all of its text at once; return False if it exists.

        On a local disk that is atomic, also between machines. Elsewhere it is as atomic as the
        check before the write.
        """
        new = self._path(f"{posixpath.dirname(path)}/.{posixpath.basename(path)}.{Random().uuid()}")
        target = self._path(path)
        self._fs.create_dir(posixpath.dirname(target), recursive=True)
        if not self._is_local:
            if self.has(path):
                return False
            self.write(path, text)
            return True
        with open(new, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(new, target)
        except FileExistsError:
            return False
        finally:
            os.unlink(new)
        self._sync(posixpath.dirname(target))
        return True

    def has(self, path: str) -> bool:
        fs: Any = import_module("pyarrow.fs")
        return bool(self._fs.get_file_info(self._path(path)).type != fs.FileType.NotFound)

    def open(self, path: str) -> Any:
        """Open a file for reads at any place. Raises FileNotFoundError."""
        return self._fs.open_input_file(self._path(path))

    def names(self, path: str) -> list[str]:
        """The names of the files in a directory, sorted; hidden files are left out."""
        fs: Any = import_module("pyarrow.fs")
        selector = fs.FileSelector(self._path(path), allow_not_found=True)
        found = [each.base_name for each in self._fs.get_file_info(selector) if each.is_file]
        return sorted(name for name in found if not name.startswith("."))

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._fs.delete_file(self._path(path))

    def _path(self, path: str) -> str:
        return posixpath.join(self._base, path) if path else str(self._base)

    def _sync(self, path: str) -> None:
        if self._is_local:
            opened = os.open(path, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)
