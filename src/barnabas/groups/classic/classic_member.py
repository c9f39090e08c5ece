"""A member of a classic group, and the vote on the group's protocol."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from barnabas.groups.classic.classic_messages import OfferedProtocol, offered_bytes

NO_ASSIGNMENT: Final = b""


@dataclass(frozen=True, slots=True)
class Member:
    """One member; it is replaced, never changed."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[OfferedProtocol, ...]
    assignment: bytes = NO_ASSIGNMENT

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def size(self) -> int:
        return offered_bytes(self.protocols)

    @property
    def protocol_names(self) -> list[str]:
        return list(dict.fromkeys(offered.name for offered in self.protocols))

    def metadata(self, protocol_name: str | None) -> bytes:
        for offered in self.protocols:
            if offered.name == protocol_name:
                return offered.metadata
        return b""


def chosen_protocol(members: Collection[Member]) -> str:
    """Each member votes for its first protocol that all support; ties go to the first voted for.

    Members that have no protocol in common are never in one group.
    """
    support = Counter(name for member in members for name in member.protocol_names)
    votes = Counter(
        next(name for name in member.protocol_names if support[name] == len(members))
        for member in members
    )
    return votes.most_common(1)[0][0]
