"""The ACLs of the cluster as this broker knows them, by pattern."""

from collections.abc import Iterator, Mapping
from typing import Final

from barnabas.security.acls import (
    WILDCARD,
    Acl,
    AclFilter,
    Entry,
    PatternType,
    ResourcePattern,
    ResourceType,
)

Entries = frozenset[Entry]
_NONE: Final[Entries] = frozenset()


class AclCache:
    """A copy of the znodes, with the patterns of a resource found without a search over all."""

    def __init__(self) -> None:
        self._entries: dict[ResourcePattern, Entries] = {}
        # The prefixes of each type that ACLs are for, and their lengths.
        self._prefix_lengths: dict[ResourceType, dict[int, int]] = {}

    def __iter__(self) -> Iterator[Acl]:
        for pattern in sorted(self._entries):
            for entry in sorted(self._entries[pattern]):
                yield Acl(pattern, entry)

    def __len__(self) -> int:
        return sum(map(len, self._entries.values()))

    def entries(self, pattern: ResourcePattern) -> Entries:
        return self._entries.get(pattern, _NONE)

    def replace_all(self, entries: Mapping[ResourcePattern, Entries]) -> None:
        self._entries.clear()
        self._prefix_lengths.clear()
        for pattern, each in entries.items():
            self.replace(pattern, each)

    def replace(self, pattern: ResourcePattern, entries: Entries) -> None:
        """Use these entries of a pattern, instead of those before."""
        had = self._entries.pop(pattern, None)
        if entries:
            self._entries[pattern] = entries
        if pattern.pattern_type is PatternType.PREFIXED and (had is None) == bool(entries):
            lengths = self._prefix_lengths.setdefault(pattern.type, {})
            length = len(pattern.name)
            lengths[length] = lengths.get(length, 0) + (1 if entries else -1)
            if not lengths[length]:
                del lengths[length]

    def find(self, wanted: AclFilter) -> list[Acl]:
        return [acl for acl in self if wanted.matches(acl)]

    def patterns(self, type: ResourceType, name: str) -> list[tuple[ResourcePattern, Entries]]:
        """See `AclSource`."""
        wanted = [ResourcePattern(type, name), ResourcePattern(type, WILDCARD)]
        wanted += [
            ResourcePattern(type, name[:length], PatternType.PREFIXED)
            for length in self._prefix_lengths.get(type, ())
            if length <= len(name)
        ]
        return [
            (pattern, self._entries[pattern])
            for pattern in dict.fromkeys(wanted)
            if pattern in self._entries
        ]

    def of_type(self, type: ResourceType) -> list[tuple[ResourcePattern, Entries]]:
        """See `AclSource`."""
        return [(pattern, each) for pattern, each in self._entries.items() if pattern.type is type]
