"""Who shall lead a partition: the leader selectors, as pure functions and one table of them.

Each looks at the candidates and chooses a leader, the ISR with it, and the replicas that are to
hear of it; or nobody. Replicas are tried in the order of the assignment, so the preferred leader
comes first. Only the unclean one ever chooses a replica that is not in sync.
"""

from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch
from barnabas.controller.context import Assignment
from barnabas.controller.decide.steps import Refusal, Selector
from barnabas.znodes.layout import PartitionState as Leading


class Candidates(NamedTuple):
    """One partition before an election.

    `online` are the brokers that live with the replica's folder whole, also if they shut down;
    available are those of them that do not.
    """

    now: Leading
    assignment: Assignment
    online: Container[BrokerId]
    shutting_down: Container[BrokerId] = ()

    def available(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(b for b in brokers if b in self.online and b not in self.shutting_down)

    def first_in_sync(self, brokers: tuple[BrokerId, ...]) -> BrokerId | None:
        """The first of the brokers that is available and in the ISR."""
        return next((b for b in self.available(brokers) if b in self.now.isr), None)


class Choice(NamedTuple):
    """A selector's answer: who leads, who is in sync with it, which replicas are to be told."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    tell: tuple[BrokerId, ...]


class Elected(NamedTuple):
    """What is to be written and told; `is_unclean` if the leader may lack acknowledged records."""

    state: Leading
    tell: tuple[BrokerId, ...]
    is_unclean: bool = False


def decide_leader(by: Selector, candidates: Candidates, controller_epoch: int) -> Elected | Refusal:
    """Elect with one selector: a leader that is alive, under an epoch that is one higher.

    A leader out of the old ISR is alone in the new one, and marked as recovering. If the leader
    there is shall stay (NONE_NEEDED), the state is returned as it is. If nobody can lead, the
    refusal tells why.
    """
    choice = SELECTORS[by](candidates)
    now = candidates.now
    if choice is None:
        return _refusal(by, candidates)
    if by is Selector.NONE_NEEDED:
        return Elected(now, choice.tell)
    is_unclean = choice.leader not in now.isr
    state = Leading(
        leader=choice.leader,
        leader_epoch=LeaderEpoch(now.leader_epoch + 1),
        controller_epoch=controller_epoch,
        isr=choice.isr,
        recovering=is_unclean or now.recovering,
    )
    return Elected(state, choice.tell, is_unclean)


def _none_needed(candidates: Candidates) -> Choice | None:
    now, replicas = candidates.now, candidates.assignment.replicas
    return Choice(now.leader, now.isr, replicas) if now.leader in candidates.online else None


def _offline(candidates: Candidates) -> Choice | None:
    """The first that lives and is in sync; the ISR keeps those that live."""
    replicas = candidates.assignment.replicas
    leader = candidates.first_in_sync(replicas)
    if leader is None:
        return None
    return Choice(leader, candidates.available(candidates.now.isr), candidates.available(replicas))


def _offline_unclean(candidates: Candidates) -> Choice | None:
    """As `_offline`; if nobody in sync lives, the first that lives, alone in the ISR."""
    clean = _offline(candidates)
    if clean is not None:
        return clean
    alive = candidates.available(candidates.assignment.replicas)
    return Choice(alive[0], alive[:1], alive) if alive else None


def _reassigned(candidates: Candidates) -> Choice | None:
    """The first of the brokers that it moves to; the ISR shrinks when the others are stopped."""
    target = candidates.assignment.target
    leader = candidates.first_in_sync(target)
    return None if leader is None else Choice(leader, candidates.now.isr, target)


def _preferred(candidates: Candidates) -> Choice | None:
    replicas = candidates.assignment.replicas
    leader = candidates.first_in_sync(replicas[:1])
    return None if leader is None else Choice(leader, candidates.now.isr, replicas)


def _controlled_shutdown(candidates: Candidates) -> Choice | None:
    """The first in sync that does not shut down; those that do leave the ISR, but are told."""
    replicas = candidates.assignment.replicas
    leader = candidates.first_in_sync(replicas)
    if leader is None:
        return None
    isr = tuple(b for b in candidates.now.isr if b not in candidates.shutting_down)
    return Choice(leader, isr, tuple(b for b in replicas if b in candidates.online))


SELECTORS: Final[Mapping[Selector, Callable[[Candidates], Choice | None]]] = {
    Selector.NONE_NEEDED: _none_needed,
    Selector.OFFLINE: _offline,
    Selector.OFFLINE_UNCLEAN: _offline_unclean,
    Selector.REASSIGNED: _reassigned,
    Selector.PREFERRED: _preferred,
    Selector.CONTROLLED_SHUTDOWN: _controlled_shutdown,
}

_REASONS: Final[Mapping[Selector, str]] = {
    Selector.NONE_NEEDED: "the leader is not alive",
    Selector.OFFLINE: "no replica that is in sync is alive",
    Selector.OFFLINE_UNCLEAN: "no replica is alive",
    Selector.REASSIGNED: "none of the new replicas is alive and in sync",
    Selector.PREFERRED: "the preferred leader is not alive and in sync",
    Selector.CONTROLLED_SHUTDOWN: "no other replica is alive and in sync",
}


def _refusal(by: Selector, candidates: Candidates) -> Refusal:
    now, replicas = candidates.now, candidates.assignment.replicas
    alive = list(candidates.available(replicas))
    code = (
        ErrorCode.preferred_leader_not_available
        if by is Selector.PREFERRED
        else ErrorCode.eligible_leaders_not_available
    )
    facts = f"replicas={list(replicas)} isr={list(now.isr)} alive={alive}"
    return Refusal(code, f"{_REASONS[by]} ({facts})")
