"""The ISR of one partition, as its leader sees it: committed, pending and maximal.

A change that adds a replica affects the high watermark as soon as it begins; one that removes a
replica only once it is written. So the controller may elect the next leader from either set: every
member has all acknowledged records (KIP-497).

    committed   what the tree is known to hold
    pending     the change on its way there, if any; no other begins meanwhile
    maximal     the committed ones and those that the pending change adds
"""

from collections.abc import Callable

from barnabas.base.ids import BrokerId, Offset
from barnabas.base.laws import law
from barnabas.replication.leader.follower_progress import Follower, IsrChange
from barnabas.replication.leadership import Leadership


class InSyncReplicas:
    """The followers of one leader epoch and the in-sync replicas; nothing here knows a clock."""

    __slots__ = (
        "_is_alive",
        "broker_id",
        "committed",
        "followers",
        "leadership",
        "maximal",
        "partition_epoch",
        "pending",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leadership: Leadership,
        now_ms: float,
        is_alive: Callable[[BrokerId], bool],
    ) -> None:
        """Give the in-sync replicas the whole lag time from now on for their first fetch."""
        self.broker_id = broker_id
        self._is_alive = is_alive
        self.followers = {
            replica: Follower(replica, now_ms) if replica in leadership.isr else Follower(replica)
            for replica in leadership.replicas
            if replica != broker_id
        }
        self.leadership = leadership
        self.apply(leadership.isr, leadership.partition_epoch)

    def on_leadership(self, leadership: Leadership) -> bool:
        """Apply a LeaderAndIsr within this epoch, unless a newer state is known already.

        A pending change has been decided if the partition epoch is newer; if it is the same it
        may yet come through, and stays pending.
        """
        if leadership.partition_epoch < self.partition_epoch:
            return False
        self.leadership = leadership
        self.followers = {
            replica: self.followers.get(replica) or Follower(replica)
            for replica in leadership.replicas
            if replica != self.broker_id
        }
        if leadership.partition_epoch > self.partition_epoch or self.pending is None:
            self.apply(leadership.isr, leadership.partition_epoch)
        return True

    def apply(self, isr: tuple[BrokerId, ...], partition_epoch: int) -> None:
        """Note the ISR in the tree: a pending change was written, or never can be."""
        self.committed = self.maximal = isr
        self.partition_epoch = partition_epoch
        self.pending: IsrChange | None = None

    def begin(self, change: IsrChange) -> None:
        """Make a change pending until the tree decides.

        Keeps   REP-3  one change of the in-sync replicas is under way at a time
        """
        law(
            self.pending is None,
            "REP-3 one change of the in-sync replicas is under way at a time",
            pending=self.pending,
            change=change,
        )
        self.pending = change
        added = tuple(replica for replica in change.isr if replica not in self.committed)
        self.maximal = self.committed + added

    def decide_expansion(self, follower: Follower, at_least: int) -> IsrChange | None:
        """Return the change that adds a caught-up follower, if it is not in sync."""
        if (
            self.pending is not None
            or follower.broker_id in self.committed
            or follower.log_end_offset < at_least
            or not self._is_alive(follower.broker_id)
        ):
            return None
        return self._change_to((*self.committed, follower.broker_id))

    def decide_expulsion(self, follower: Follower) -> IsrChange | None:
        """Return the change that removes a follower without all committed records, if in sync."""
        if self.pending is not None or follower.broker_id not in self.committed:
            return None
        return self._change_to(tuple(b for b in self.committed if b != follower.broker_id))

    def decide_shrink(self, leader_end: int, now_ms: float, max_lag_ms: float) -> IsrChange | None:
        """Return the change that removes the followers that lag for too long, if any do."""
        if self.pending is not None:
            return None
        isr = tuple(
            replica
            for replica in self.committed
            if replica == self.broker_id or self._keeps_up(replica, leader_end, now_ms, max_lag_ms)
        )
        return None if isr == self.committed else self._change_to(isr)

    def _keeps_up(
        self, replica: BrokerId, leader_end: int, now_ms: float, max_lag_ms: float
    ) -> bool:
        follower = self.followers.get(replica)
        return follower is not None and follower.is_caught_up(leader_end, now_ms, max_lag_ms)

    def _change_to(self, isr: tuple[BrokerId, ...]) -> IsrChange:
        leadership = self.leadership
        return IsrChange(
            leadership.topic_partition,
            self.broker_id,
            leadership.leader_epoch,
            leadership.controller_epoch,
            self.partition_epoch,
            self.committed,
            isr,
        )

    def least_end(self, leader_end: Offset, now_ms: float, max_lag_ms: float) -> Offset:
        """The least log end of all replicas that are in sync, or keep pace and are about to be.

        The latter count, as they would otherwise never reach a high watermark that moves ahead
        with the leader's log.
        """
        least = leader_end
        for follower in self.followers.values():
            reached = follower.log_end_offset
            if reached < least and (
                follower.broker_id in self.maximal
                or (
                    follower.is_caught_up(leader_end, now_ms, max_lag_ms)
                    and self._is_alive(follower.broker_id)
                )
            ):
                least = Offset(reached)
        return least

    def least_start(self, leader_start: Offset) -> Offset:
        """The least log start among the replicas that are alive."""
        starts = (
            follower.log_start_offset
            for follower in self.followers.values()
            if self._is_alive(follower.broker_id)
        )
        return Offset(min((leader_start, *starts)))
