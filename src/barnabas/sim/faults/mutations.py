"""What each safeguard is for, shown: without it, the simulation finds harm within a few seeds.

A checker that finds nothing proves little until it was seen to find something. So each rule of
base/safeguards.py is switched off in turn, and the cluster put through faults that need it. With
the rule in force, the very same seed must keep every law.
"""

import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from typing import Final

from barnabas.base.safeguards import IN_FORCE
from barnabas.sim.faults.fault_kinds import KINDS, Fault
from barnabas.sim.faults.scripted_faults import (
    CONTROLLER_EPOCH,
    EPOCH_TRUNCATION,
    ISR_VERSION,
    MIN_INSYNC,
)
from barnabas.sim.seed_runner import leave_signals
from barnabas.sim.sim_run import Report, run
from barnabas.sim.world.seed_settings import Setting, setting_of

FIRST_SEED: Final = 1
MOST_SEEDS: Final = 10
FAULTS_S: Final = 30.0
_MOST_TOLD: Final = 3


def _kinds(*names: str) -> tuple[Fault, ...]:
    return tuple(fault for fault in KINDS if fault.kind in names)


@dataclass(frozen=True, slots=True)
class Mutation:
    """A cluster without one safeguard, and the faults that it then does not bear."""

    safeguard: str  # the name of its field
    rule: str
    kinds: tuple[Fault, ...]

    def play(self, seed: int, *, in_force: bool = False) -> Report:
        """Run one seed without the safeguard, or with it."""
        safeguards = IN_FORCE if in_force else replace(IN_FORCE, **{self.safeguard: False})
        return run(_setting(seed), safeguards, self.kinds)


def _setting(seed: int) -> Setting:
    """A cluster in which every rule matters: small segments, unflushed, two replicas at least."""
    return replace(
        setting_of(seed, FAULTS_S),
        session_timeout_s=2.0,
        min_insync_replicas=2,
        segment_bytes=4096,
        flushes_each=False,
        bits_rot=False,
    )


MUTATIONS: Final = {
    mutation.safeguard: mutation
    for mutation in (
        Mutation(
            "epoch_truncation",
            "followers truncate where leader epochs say, not at their high watermark",
            (EPOCH_TRUNCATION,),
        ),
        Mutation(
            "isr_version_check",
            "a leader writes in-sync replicas only over those that it has seen",
            (ISR_VERSION,),
        ),
        Mutation(
            "controller_epoch_fence",
            "brokers refuse what a past controller says",
            (CONTROLLER_EPOCH,),
        ),
        Mutation(
            "flush_before_checkpoint",
            "a recovery point tells only of what was flushed",
            _kinds("power lost", "slow disk"),
        ),
        Mutation(
            "min_insync_check",
            "acks=all is refused while too few replicas are in sync",
            (MIN_INSYNC,),
        ),
        Mutation(
            "sequence_check",
            "a batch that a producer sends again is not written again",
            _kinds("connections reset", "packets lost", "broker paused"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of switching off a safeguard; `seed` is None if nothing did."""

    safeguard: str
    seeds: int  # how many were tried
    seed: int | None
    broken: tuple[str, ...]
    broken_in_force: tuple[str, ...]  # by that seed with all safeguards: nothing, if all is well


def find(safeguard: str, most: int = MOST_SEEDS) -> Finding:
    """Try seeds without a safeguard until one shows harm."""
    mutation = MUTATIONS[safeguard]
    for seed in range(FIRST_SEED, FIRST_SEED + most):
        broken = mutation.play(seed).broken
        if broken:
            control = mutation.play(seed, in_force=True).broken
            tried = seed - FIRST_SEED + 1
            return Finding(safeguard, tried, seed, _told(broken), _told(control))
    return Finding(safeguard, most, None, (), ())


def find_all(processes: int | None = None) -> Iterator[Finding]:
    """All of them, several at once, in the order of MUTATIONS."""
    count, spawning = processes or os.cpu_count() or 1, multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, spawning, initializer=leave_signals) as pool:
        yield from pool.map(find, MUTATIONS)


def _told(broken: Sequence[str]) -> tuple[str, ...]:
    """Which laws were broken, without where and how often; the first few."""
    laws = (re.sub(r"^broker-\d+: ", "", each).partition(": ")[0] for each in broken)
    return tuple(dict.fromkeys(re.sub(r"broker-\d+", "a broker", law) for law in laws))[:_MOST_TOLD]
