"""The cases of `bench compare --clients`: one client with its defaults against a cluster.

Each case varies one factor of a base: 6 equal partitions, messages of 1,000 B, one consumer, a
classic group.
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from statistics import median
from typing import Any, Final
from uuid import uuid4

from barnabas.bench.clusters.bench_topics import delete_topic, log_end_offset
from barnabas.bench.compare.client_driver import Driver, again_if_stuck, run
from barnabas.bench.compare.client_members import Readers
from barnabas.bench.compare.compare_cases import Case, CaseMetric, Effort, Turns
from barnabas.bench.compare.compare_load import ClientLoad, new_topic, produce, topic
from barnabas.bench.compare.compare_sites import Site
from barnabas.bench.compare.group_gate import begin_together, has_consumer_groups
from barnabas.bench.compare.paced import paced_writer
from barnabas.bench.limits.clients_bench import RecordsMissing

GROUP: Final = 3
LATENCY_RATE: Final = 200
NEW_MESSAGES_PER_SECOND: Final = 5_000
# A member reports at times only, so not every message that it got is known of while it reads.
KNOWN_OF: Final = 0.7
MOST_MESSAGES: Final = {100: 600_000, 1000: 150_000}
# Where one partition has nearly all messages, some clients get 1 MiB in half a second: a fetch of
# the others waits for fetch.max.wait.ms, and this partition is not in it.
SKEWED_SHARE: Final = 0.2
FEWEST_MESSAGES: Final = 3_000
# Three fast clients read all of that within 0.15 s, too short to measure.
GROUP_SHARE: Final = 3
FAST: Final = frozenset({"librdkafka", "franz-go"})
# Of these messages, for clients that take much longer over one; a measurement is to take a second.
SHARES: Final = {"kafka-python": 0.3, "aiokafka": 0.5, "kafkajs": 0.5}

BASE: Final = ClientLoad(record_bytes=1000, partitions=6)
SMALL: Final = replace(BASE, record_bytes=100)
SKEWED: Final = replace(BASE, skewed=True)
READ: Final = (
    ("consume, 1 partition", replace(BASE, partitions=1)),
    ("consume, 6 partitions", BASE),
    ("consume, 10 partitions", replace(BASE, partitions=10)),
    ("consume, 100 partitions", replace(BASE, partitions=100)),
    ("consume, 6 partitions, 100 B", SMALL),
    ("consume, 6 partitions, 90 % in one", SKEWED),
)
BY_THREE: Final = "consume, 6 partitions, group of three"
KIP_848: Final = "consume, 6 partitions, KIP-848 group"
_OURS: Final = uuid4().hex[:8]  # others may compare there, too
_GROUPS = count()
Measure = Callable[[Site, Effort], Sequence[float]]


class Data:
    """Topics that all clients read, written once per cluster and kind of messages."""

    def __init__(self) -> None:
        self._topics: dict[tuple[Site, ClientLoad, str], str] = {}

    def topic(self, site: Site, load: ClientLoad, effort: Effort, use: str = "") -> str:
        """The topic's name; writes it on first use. Raises RecordsMissing."""
        key = (site, load, use)
        if key not in self._topics:
            name = new_topic(site, load.partitions)
            produce(site, name, load, load.record_bytes * messages(load, effort))
            os.sync()  # or the disk would still write while the first client reads
            self._topics[key] = name
        return self._topics[key]

    def delete(self) -> None:
        """Delete the topics on external clusters; the others are removed as a whole."""
        for (site, *_), name in self._topics.items():
            if not site.brokers:
                delete_topic(site.bootstrap, name)


def messages(load: ClientLoad, effort: Effort, client: str = "") -> int:
    """The messages that a client sends or reads in one measurement."""
    wanted = MOST_MESSAGES[load.record_bytes] * effort.share * SHARES.get(client, 1.0)
    if load.skewed:
        wanted *= SKEWED_SHARE
    return max(FEWEST_MESSAGES, int(wanted) // 500 * 500)


@dataclass(frozen=True, slots=True)
class Client:
    """One client's measurements; each returns the figures of a case on one cluster."""

    driver: Driver
    data: Data

    def produced(self, load: ClientLoad, site: Site, effort: Effort) -> tuple[float, float]:
        """MB/s until the last message is acknowledged, and the client's CPU seconds for a GB.

        Raises RecordsMissing if some are not in the log.
        """
        with topic(site, load.partitions) as name:
            rate, used_s = self._produce(site, name, load, effort)
        return rate, _per_gb(used_s, messages(load, effort, self.driver.name), load)

    def consumed(
        self, load: ClientLoad, site: Site, effort: Effort, use: str = "", protocol: str = "classic"
    ) -> tuple[float, float]:
        """MB/s from the first assignment on, and the client's CPU seconds for a GB."""
        name = self.data.topic(site, load, effort, use)
        found = self._run(
            site,
            role="consume",
            topic=name,
            group=_group(),
            messages=messages(load, effort, self.driver.name),
            protocol=protocol,
            shared=False,
        )
        rate = found["messages"] * load.record_bytes / 1e6 / found["seconds"]
        return rate, _per_gb(found["cpu_s"], found["messages"], load)

    def consumed_in_new_protocol(self, site: Site, effort: Effort) -> tuple[float, float]:
        """The same in a KIP-848 group, or in a classic one if the cluster has none."""
        protocol = "consumer" if has_consumer_groups(site.bootstrap) else "classic"
        return self.consumed(BASE, site, effort, protocol=protocol)

    def consumed_by_three(self, site: Site, effort: Effort) -> tuple[float]:
        """MB/s of all members together, from the first message of any."""
        name = self.data.topic(site, BASE, _of_group(effort), BY_THREE)
        wanted = messages(
            BASE, _of_group(effort) if self.driver.name in FAST else effort, self.driver.name
        )
        rate, _ = again_if_stuck(self.driver, lambda: self._shared(site, name, wanted, GROUP))
        return (rate,)

    def at_once(self, site: Site, effort: Effort) -> tuple[float, float]:
        """MB/s in, and out again by a consumer that waits for the first message."""
        return again_if_stuck(self.driver, lambda: self._at_once(site, effort))

    def _at_once(self, site: Site, effort: Effort) -> tuple[float, float]:
        wanted = messages(BASE, effort, self.driver.name)
        with topic(site, BASE.partitions) as name:
            out, into = self._shared(
                site, name, wanted, 1, lambda: self._produce(site, name, BASE, effort)[0]
            )
        return into, out

    def consumed_behind_a_writer(self, site: Site, effort: Effort) -> tuple[float, float]:
        """The same for old messages while others write new ones to the same partitions."""
        use = "old and new"
        name = self.data.topic(site, BASE, effort, use)
        with paced_writer(site, name, BASE, NEW_MESSAGES_PER_SECOND):
            return self.consumed(BASE, site, effort, use)

    def latencies(self, site: Site, effort: Effort) -> list[float]:
        """Milliseconds from a send until the message is read."""
        with topic(site, 1) as name:
            found = self._run(
                site,
                role="latency",
                topic=name,
                message_bytes=BASE.record_bytes,
                rate=LATENCY_RATE,
                seconds=effort.seconds,
            )
        return [found[f"{each}_ms"] for each in self.driver.latencies]

    def _produce(
        self, site: Site, name: str, load: ClientLoad, effort: Effort
    ) -> tuple[float, float]:
        """MB/s and the client's CPU seconds. Raises RecordsMissing."""
        wanted = messages(load, effort, self.driver.name)
        found = self._run(
            site,
            role="produce",
            topic=name,
            partitions=load.partitions,
            messages=wanted,
            message_bytes=load.record_bytes,
        )
        if (end := log_end_offset(site.bootstrap, name, load.partitions)) != wanted:
            raise RecordsMissing(f"{wanted} messages were sent, {end} are in the log")
        return wanted * load.record_bytes / 1e6 / float(found["seconds"]), found["cpu_s"]

    def _shared(
        self,
        site: Site,
        name: str,
        wanted: int,
        members: int,
        meanwhile: Callable[[], float] = lambda: 0.0,
    ) -> tuple[float, float]:
        """MB/s of a group, and the result of `meanwhile`, which starts with the group."""
        group = _group()
        spec = {"bootstrap": site.bootstrap, "topic": name, "group": group}
        spec |= {"protocol": "classic"}
        with Readers(self.driver, spec).running() as readers:
            begin_together(site.bootstrap, group, members, lambda: readers.start(members))
            other = meanwhile()
            progress = readers.wait_for(int(KNOWN_OF * wanted))
        (begun, had), (ended, have) = progress[0], progress[-1]
        return (have - had) * BASE.record_bytes / 1e6 / (ended - begun), other

    def _run(self, site: Site, **spec: object) -> dict[str, Any]:
        return run(self.driver, {"bootstrap": site.bootstrap, **spec})


def client_cases(drivers: Sequence[Driver], data: Data) -> list[Case]:
    """All cases of these clients, grouped by kind."""
    by_client = [_cases_of(driver, data) for driver in drivers]
    kinds = list(dict.fromkeys(kind for cases in by_client for kind in cases))
    return [cases[kind] for kind in kinds for cases in by_client if kind in cases]


def prepare(site: Site, effort: Effort, data: Data) -> None:
    """Write the topics that all clients read, before the first round."""
    for _, load in READ:
        data.topic(site, load, effort)
    data.topic(site, BASE, effort, "old and new")
    data.topic(site, BASE, _of_group(effort), BY_THREE)


def _cases_of(driver: Driver, data: Data) -> dict[str, Case]:
    client = Client(driver, data)
    found: dict[str, Measure] = {
        "produce, 1,000 B": partial(client.produced, BASE),
        "produce, 100 B": partial(client.produced, SMALL),
        **{name: partial(client.consumed, load) for name, load in READ},
        BY_THREE: client.consumed_by_three,
        "consume, old messages while new come": client.consumed_behind_a_writer,
    }
    if "consumer" in driver.protocols:
        found[KIP_848] = client.consumed_in_new_protocol
    # Kafka 3.9 has such groups with KRaft only, as a preview: the other side is a classic group.
    rows = {name: replace(_rate(name), goal=None if name == KIP_848 else 1.0) for name in found}
    cases = {
        name: _case(driver, name, measure, rows[name], *_details(name))
        for name, measure in found.items()
    }
    both = (_rate("produce while consuming"), _rate("consume while producing"))
    cases["at once"] = _case(driver, "at once", client.at_once, *both)
    latencies = (
        CaseMetric(f"end-to-end latency, {each}", "ms", less=True, goal=1.0)
        for each in driver.latencies
    )
    cases["latency"] = _case(driver, "latency", client.latencies, *latencies)
    return cases


def in_turns(measure: Measure, site: Site, effort: Effort) -> Turns:
    """The median of as many measurements as time allows, alternating with the other system.

    A fast client needs a fraction of a second for one, which is easily disturbed.
    """
    found: list[Sequence[float]] = []
    took_s: list[float] = []
    while effort.has_time(took_s):
        start = time.perf_counter()
        found.append(measure(site, effort))
        took_s.append(time.perf_counter() - start)
        yield found[-1]
    return [median(values) for values in zip(*found, strict=True)]


def _case(driver: Driver, name: str, measure: Measure, *rows: CaseMetric) -> Case:
    metrics = tuple(replace(row, client=driver.name) for row in rows)
    return Case(
        f"{driver.name}: {name}", metrics, partial(in_turns, measure), set_up_s=3.0, work_s=4.0
    )


def _rate(name: str) -> CaseMetric:
    return CaseMetric(name, "MB/s", goal=1.0)


def _details(name: str) -> tuple[CaseMetric, ...]:
    """The rows of a case that have no goal: what the client itself takes is no broker's doing."""
    if name == BY_THREE:
        return ()
    return (CaseMetric(f"{name}: client's CPU", "s/GB", less=True, detail=True),)


def _per_gb(seconds: float, messages: int, load: ClientLoad) -> float:
    return seconds * 1e9 / (messages * load.record_bytes)


def _of_group(effort: Effort) -> Effort:
    return replace(effort, total_bytes=GROUP_SHARE * effort.total_bytes)


def _group() -> str:
    return f"compared-{_OURS}-{next(_GROUPS)}"
