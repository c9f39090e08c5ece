"""CRC-32C, the checksum of Kafka's batches and of our journal, without the package's own front.

That one reads its version from the disk and loads a parser of command lines, which is a twentieth
of what a broker needs to start.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Protocol


class _Buffer(Protocol):
    def __buffer__(self, flags: int, /) -> memoryview: ...


def _native() -> Callable[[_Buffer], int]:
    package = find_spec("crc32c")
    directory = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", directory)
    if spec is None or spec.loader is None:  # another version of it, made otherwise
        from crc32c import crc32c

        return crc32c
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[_Buffer], int] = module.crc32c
    return found


crc32c = _native()
