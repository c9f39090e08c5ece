"""The leader selectors: pure functions that choose a partition's leader, in one table.

Each selector returns a leader, the new ISR and the replicas to notify, or None. It tries the
replicas in the order of the assignment, the preferred leader first. Only the unclean selector
chooses a replica outside the ISR.
"""

from collections.abc import Callable, Container, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import BrokerId, LeaderEpoch
from barnabas.controller.context import Assignment
from barnabas.controller.decide.steps import (
    ApiError,
)
from barnabas.controller.states import Selector
from barnabas.znodes.layout import LeaderAndIsr


class Candidates(NamedTuple):
    """One partition before an election.

    `online` are the brokers that are alive and whose log directory has not failed, including those
    that are shutting down; the available ones are not.
    """

    now: LeaderAndIsr
    assignment: Assignment
    online: Container[BrokerId]
    shutting_down: Container[BrokerId] = ()

    def available(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(b for b in brokers if b in self.online and b not in self.shutting_down)

    def first_in_sync(self, brokers: tuple[BrokerId, ...]) -> BrokerId | None:
        """The first of these brokers that is available and in the ISR."""
        return next((b for b in self.available(brokers) if b in self.now.isr), None)


class Choice(NamedTuple):
    """A selector's result: the leader, the ISR, and the replicas to notify."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    notify: tuple[BrokerId, ...]


class ElectedLeader(NamedTuple):
    """The state to write and the replicas to notify.

    With `is_unclean` the leader may lack acknowledged records.
    """

    state: LeaderAndIsr
    notify: tuple[BrokerId, ...]
    is_unclean: bool = False


def decide_leader(
    by: Selector, candidates: Candidates, controller_epoch: int
) -> ElectedLeader | ApiError:
    """Elect a live leader with one selector, under the next leader epoch.

    A leader from outside the old ISR is alone in the new one and marked as recovering.
    NONE_NEEDED keeps the leader and returns the state unchanged. If no replica can lead, the
    error gives the reason.
    """
    choice = SELECTORS[by](candidates)
    now = candidates.now
    if choice is None:
        return _refusal(by, candidates)
    if by is Selector.NONE_NEEDED:
        return ElectedLeader(now, choice.notify)
    is_unclean = choice.leader not in now.isr
    state = LeaderAndIsr(
        leader=choice.leader,
        leader_epoch=LeaderEpoch(now.leader_epoch + 1),
        controller_epoch=controller_epoch,
        isr=choice.isr,
        recovering=is_unclean or now.recovering,
    )
    return ElectedLeader(state, choice.notify, is_unclean)


def _none_needed(candidates: Candidates) -> Choice | None:
    now, replicas = candidates.now, candidates.assignment.replicas
    return Choice(now.leader, now.isr, replicas) if now.leader in candidates.online else None


def _offline(candidates: Candidates) -> Choice | None:
    """The first available replica in the ISR; the ISR keeps its available members."""
    replicas = candidates.assignment.replicas
    leader = candidates.first_in_sync(replicas)
    if leader is None:
        return None
    return Choice(leader, candidates.available(candidates.now.isr), candidates.available(replicas))


def _offline_unclean(candidates: Candidates) -> Choice | None:
    """As `_offline`; without one, the first available replica, alone in the ISR."""
    clean = _offline(candidates)
    if clean is not None:
        return clean
    alive = candidates.available(candidates.assignment.replicas)
    return Choice(alive[0], alive[:1], alive) if alive else None


def _reassigned(candidates: Candidates) -> Choice | None:
    """The first available target replica in the ISR; the ISR shrinks when the others stop."""
    target = candidates.assignment.target
    leader = candidates.first_in_sync(target)
    return None if leader is None else Choice(leader, candidates.now.isr, target)


def _preferred(candidates: Candidates) -> Choice | None:
    replicas = candidates.assignment.replicas
    leader = candidates.first_in_sync(replicas[:1])
    return None if leader is None else Choice(leader, candidates.now.isr, replicas)


def _controlled_shutdown(candidates: Candidates) -> Choice | None:
    """The first available replica in the ISR.

    Brokers that are shutting down leave the ISR, but are still notified.
    """
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
    Selector.OFFLINE: "no replica in the ISR is alive",
    Selector.OFFLINE_UNCLEAN: "no replica is alive",
    Selector.REASSIGNED: "none of the new replicas is alive and in sync",
    Selector.PREFERRED: "the preferred leader is not alive and in sync",
    Selector.CONTROLLED_SHUTDOWN: "no other replica is alive and in sync",
}


def _refusal(by: Selector, candidates: Candidates) -> ApiError:
    now, replicas = candidates.now, candidates.assignment.replicas
    alive = list(candidates.available(replicas))
    code = (
        ErrorCode.preferred_leader_not_available
        if by is Selector.PREFERRED
        else ErrorCode.eligible_leaders_not_available
    )
    facts = f"replicas={list(replicas)} isr={list(now.isr)} alive={alive}"
    return ApiError(code, f"{_REASONS[by]} ({facts})")
