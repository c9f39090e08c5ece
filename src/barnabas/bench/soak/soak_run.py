"""A soak: a cluster of three brokers under load, sampled every few seconds."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from barnabas.bench.attacks.attack_probe import ProbeRounds, probing
from barnabas.bench.attacks.broker_watch import anonymous_bytes, descriptors, threads
from barnabas.bench.bench_plan import Say
from barnabas.bench.clusters.bench_topics import create_topics
from barnabas.bench.compare.compare_sites import Site, barnabas
from barnabas.bench.compare.signals import signalled_once
from barnabas.bench.soak.soak_load import COUNTED, PROPERTIES, SoakLoad
from barnabas.bench.soak.soak_verdict import SoakSample, SoakTrend, decide_trends

BROKERS: Final = 3
PROBED: Final = "soak-probed"
PROBED_EVERY_MS: Final = 100
SAMPLED_EVERY_S: Final = 5.0
STEADY_FROM_S: Final = 600.0
STEADY_SHARE: Final = 0.3  # of a run that is shorter than twice that


@dataclass(frozen=True, slots=True)
class Soak:
    """All samples, what the clients did, and the trends of the steady part."""

    minutes: float
    steady_from_s: float
    samples: list[SoakSample]
    counts: Mapping[str, int]
    trends: list[SoakTrend]
    interrupted: bool = False

    @property
    def missing(self) -> list[str]:
        """The parts of the load that never happened: an idle cluster never grows."""
        return [name for name in COUNTED if not self.counts.get(name)]

    @property
    def is_flat(self) -> bool:
        return bool(self.trends) and not self.missing and all(each.is_flat for each in self.trends)


def steady_from_s(minutes: float) -> float:
    """The tenth minute of an hour, the third of ten minutes."""
    return min(STEADY_FROM_S, STEADY_SHARE * 60 * minutes)


def soak(minutes: float, folder: Path, say: Say, every_s: float = SAMPLED_EVERY_S) -> Soak:
    """Run the load for this long. A signal ends it: the samples so far are judged.

    Nothing is left running. Raises ServerFailed or ConfigError if the cluster does not start.
    """
    samples: list[SoakSample] = []
    counts: Mapping[str, int] = {}
    interrupted = False
    try:
        with signalled_once(), barnabas(PROPERTIES).start(folder, BROKERS) as site:
            load = SoakLoad(site.bootstrap)
            counts = load.counts
            _run(site, load, minutes, every_s, samples, say)
    except (KeyboardInterrupt, SystemError):
        # The Kafka client makes a SystemError of a signal that hits one of its calls.
        interrupted = True
    since = steady_from_s(minutes)
    trends = decide_trends(samples, since)
    return Soak(minutes, since, samples, dict(counts), trends, interrupted)


def _run(
    site: Site,
    load: SoakLoad,
    minutes: float,
    every_s: float,
    samples: list[SoakSample],
    say: Say,
) -> None:
    turns = [[(leader + n) % BROKERS for n in range(BROKERS)] for leader in range(BROKERS)]
    create_topics(site.bootstrap, {PROBED: turns})
    load.create_topics()
    ports = [broker.port for broker in site.brokers]
    with load.running(), probing(ports, PROBED, PROBED_EVERY_MS) as probed:
        start = time.perf_counter()
        while (at_s := time.perf_counter() - start) < 60 * minutes:
            time.sleep(min(every_s, 60 * minutes - at_s))
            now = time.perf_counter()
            taken = [
                _sample(broker, site, probed, start, now, every_s) for broker in range(BROKERS)
            ]
            samples += taken
            say(_progress(taken, minutes, load.counts))


def _sample(
    broker: int, site: Site, probed: ProbeRounds, start: float, now: float, every_s: float
) -> SoakSample:
    pid = site.brokers[broker].pid
    latency = probed.latency(now - every_s, now, broker)
    return SoakSample(
        now - start,
        broker,
        anonymous_bytes(pid),
        descriptors(pid),
        threads(pid),
        latency.p50_s,
        latency.worst_s,
    )


def _progress(taken: list[SoakSample], minutes: float, counts: Mapping[str, int]) -> str:
    brokers = ", ".join(
        f"{each.memory_bytes / 1e6:.0f} MB {each.descriptors:.0f} fds {each.threads:.0f} threads"
        f" {1e3 * each.p50_s:.1f} ms"
        for each in taken
    )
    did = ", ".join(f"{name} {count:,}" for name, count in counts.items())
    return f"{taken[0].at_s / 60:.1f} of {minutes:g} min: {brokers}; {did}"
