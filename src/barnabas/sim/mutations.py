"""Mutation tests of the safeguards: without one, the simulation finds a broken law in few seeds.

A checker that finds nothing proves little until it has found something. So each rule of
base/safeguards.py is disabled in turn, and the cluster gets the faults that need it. With the
rule enabled, the same seed must break no law.
"""

import multiprocessing
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from barnabas.base.safeguards import IN_FORCE
from barnabas.sim.acl_run import ACL_FAULTS, run_with_acls
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.late_requests import LATE_REQUEST
from barnabas.sim.faults.scripted_faults import (
    CONTROLLER_EPOCH,
    EPOCH_TRUNCATION,
    ISR_VERSION,
    MIN_INSYNC,
)
from barnabas.sim.faults.transaction_scripts import (
    COORDINATOR_EPOCH,
    REPLICATE_BEFORE_ANSWER,
    VERIFICATION_GUARD,
)
from barnabas.sim.seed_runner import end_with_parent
from barnabas.sim.sim_run import Report, run
from barnabas.sim.world.seed_settings import SeedSettings, settings_of

FIRST_SEED: Final = 1
MOST_SEEDS: Final = 10
FAULTS_S: Final = 30.0
ACLS_S: Final = 10.0
_MOST_TOLD: Final = 3


def _kinds(*names: str) -> tuple[Fault, ...]:
    return tuple(fault for fault in KINDS if fault.kind in names)


class Clients(NamedTuple):
    """The clients of a mutation, and what their topics are; see SeedSettings."""

    has_transactions: bool = False
    transaction_version: int = 2
    hands_over: bool = False
    is_light: bool = False
    replication_factor: int = 3
    internal_replication_factor: int = 3
    flushes_each: bool = False


PLAIN: Final = Clients()
TRANSACTIONS: Final = Clients(has_transactions=True, is_light=True)
# An epoch for each transaction would catch what these rules catch in an epoch of many.
SHARED_EPOCH: Final = TRANSACTIONS._replace(transaction_version=0)
# Nothing waits for other replicas: with version 0 requests are decided and answered at once.
SOLE: Final = SHARED_EPOCH._replace(replication_factor=1, internal_replication_factor=1)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A disabled safeguard, and the faults that then break a law."""

    safeguard: str  # the name of its field
    rule: str
    kinds: tuple[Fault, ...]
    clients: Clients = PLAIN
    has_acls: bool = False

    def run_seed(self, seed: int, *, in_force: bool = False, faults_s: float = FAULTS_S) -> Report:
        """Run one seed without the safeguard, or with it."""
        safeguards = IN_FORCE if in_force else replace(IN_FORCE, **{self.safeguard: False})
        setting = _setting(seed, faults_s, self.clients)
        if self.has_acls:
            return run_with_acls(replace(setting, duration_s=ACLS_S), safeguards, self.kinds)
        return run(setting, safeguards, self.kinds)


def _setting(seed: int, faults_s: float, clients: Clients) -> SeedSettings:
    """A cluster in which every rule matters: small segments, min.insync.replicas=2, and flushes
    only where a rule is about them."""
    return replace(
        settings_of(seed, faults_s),
        session_timeout_s=2.0,
        min_insync_replicas=min(2, clients.replication_factor),
        segment_bytes=4096,
        bits_rot=False,
        **clients._asdict(),
    )


MUTATIONS: Final = {
    mutation.safeguard: mutation
    for mutation in (
        Mutation(
            "epoch_truncation",
            "followers truncate by leader epochs, not to their high watermark",
            (EPOCH_TRUNCATION,),
        ),
        Mutation(
            "isr_version_check",
            "a leader updates the ISR only over the version that it has read",
            (ISR_VERSION,),
        ),
        Mutation(
            "controller_epoch_fence",
            "brokers fence requests of past controllers",
            (CONTROLLER_EPOCH,),
        ),
        Mutation(
            "flush_before_checkpoint",
            "a recovery point covers only flushed records",
            _kinds("power lost", "slow disk"),
        ),
        Mutation(
            "min_insync_check",
            "acks=all is rejected while the ISR is below min.insync.replicas",
            (MIN_INSYNC,),
        ),
        Mutation(
            "sequence_check",
            "a batch that a producer retries is not appended twice",
            _kinds("connections reset", "packets lost", "broker paused"),
        ),
        Mutation(
            "acl_invalidation",
            "a changed ACL ends the decisions that were made before it",
            ACL_FAULTS,
            has_acls=True,
        ),
        Mutation(
            "producer_epoch_fence",
            "coordinators and leaders refuse producers of past epochs",
            (LATE_REQUEST,),
            TRANSACTIONS,
        ),
        Mutation(
            "verification_guard",
            "a batch joins a transaction only if the coordinator knows its partition",
            (VERIFICATION_GUARD,),
            SHARED_EPOCH,
        ),
        Mutation(
            "coordinator_epoch_fence",
            "leaders refuse the markers of past coordinators",
            (COORDINATOR_EPOCH,),
            SHARED_EPOCH,
        ),
        Mutation(
            "replicate_before_answer",
            "a transaction coordinator answers when its record is replicated",
            (REPLICATE_BEFORE_ANSWER,),
            TRANSACTIONS,
        ),
        Mutation(
            "last_stable_offset_bound",
            "read_committed stops at the last stable offset",
            (LATE_REQUEST,),
            TRANSACTIONS,
        ),
        Mutation(
            "replicate_markers",
            "a transaction is complete when its markers are replicated",
            (REPLICATE_BEFORE_ANSWER,),
            SOLE._replace(replication_factor=2),
        ),
        Mutation(
            "flush_before_answer",
            "with flush.messages=1, coordinators flush before they act on a record",
            _kinds("power lost"),
            SOLE._replace(flushes_each=True),
        ),
        Mutation(
            "pending_offsets",
            "a group's offsets wait for the transaction that may change them",
            _kinds("slow link", "one-way partition", "packets lost"),
            TRANSACTIONS._replace(hands_over=True),
        ),
    )
}

# The rules of transactions again, where coordinators wait for nobody. So `replicate_before_answer`
# has nothing to prevent.
SOLE_MUTATIONS: Final[Mapping[str, Mutation]] = {
    "replicate_markers": MUTATIONS["replicate_markers"],
    "flush_before_answer": MUTATIONS["flush_before_answer"],
    **{
        name: replace(MUTATIONS[name], kinds=kinds, clients=clients)
        for name, kinds, clients in (
            # Two copiers take the epoch of each other: each EndTxn may be one of a zombie.
            ("producer_epoch_fence", _kinds("packets lost", "broker paused"), SOLE),
            ("verification_guard", (VERIFICATION_GUARD,), SOLE),
            ("coordinator_epoch_fence", (COORDINATOR_EPOCH,), SOLE),
            ("last_stable_offset_bound", _kinds("packets lost", "broker paused"), SOLE),
            (
                "pending_offsets",
                MUTATIONS["pending_offsets"].kinds,
                SOLE._replace(transaction_version=2, hands_over=True),
            ),
        )
    },
}


@dataclass(frozen=True, slots=True)
class MutationResult:
    """The first seed that broke a law without a safeguard; `seed` is None if none did."""

    safeguard: str
    seeds: int  # how many were tried
    seed: int | None
    broken: tuple[str, ...]
    broken_in_force: tuple[str, ...]  # by that seed with all safeguards: should be empty


def find(
    safeguard: str,
    most: int = MOST_SEEDS,
    *,
    faults_s: float = FAULTS_S,
    mutations: Mapping[str, Mutation] = MUTATIONS,
) -> MutationResult:
    """Run seeds without a safeguard until one breaks a law."""
    mutation = mutations[safeguard]
    for seed in range(FIRST_SEED, FIRST_SEED + most):
        broken = mutation.run_seed(seed, faults_s=faults_s).broken
        if broken:
            control = mutation.run_seed(seed, faults_s=faults_s, in_force=True).broken
            tried = seed - FIRST_SEED + 1
            return MutationResult(safeguard, tried, seed, _law_names(broken), _law_names(control))
    return MutationResult(safeguard, most, None, (), ())


def find_all(processes: int | None = None) -> Iterator[MutationResult]:
    """The results for all safeguards, run in parallel, in the order of MUTATIONS."""
    count, spawning = processes or os.cpu_count() or 1, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, spawning, initializer=end_with_parent) as pool:
        yield from pool.map(find, MUTATIONS)


def _law_names(broken: Sequence[str]) -> tuple[str, ...]:
    """The names of the first few broken laws, without places and counts."""
    laws = (re.sub(r"^broker-\d+: ", "", each).partition(": ")[0] for each in broken)
    return tuple(dict.fromkeys(re.sub(r"broker-\d+", "a broker", law) for law in laws))[:_MOST_TOLD]
