"""Client drivers: programs that measure one client each, in their own process and runtime.

A driver is a command line to which one argument is appended: a JSON object, the *spec*. It
connects, measures, prints one JSON object as its last line of stdout, and exits with 0. Where it
fails it exits with another code and says why in one line on stderr. Clients run with their own
defaults, apart from what the spec names and `auto.offset.reset=earliest`. The Java client comes by
Kafka's own tools, which have no `skew`, `first_s`, `p50_ms` and `p99_ms`, but a `mean_ms`.

`produce`  bootstrap, topic, partitions, messages, message_bytes, skew
    {"seconds"} from the first send until all messages are acknowledged. The driver sends to each
    partition in turn, or the client's own partitioner chooses; with `skew` nine of ten messages
    go to partition 0.
`consume`  bootstrap, topic, group, messages, protocol ("classic" or "consumer"), shared
    {"seconds", "messages", "bytes", "first_s"} from the first assignment that is not empty until
    that many messages came, and until the first of them.
    `shared`: it reads, and ignores `messages`, until stdin has a line or ends. Meanwhile it prints
    a line [seconds since the epoch, messages so far] after polls that brought messages, flushed;
    not more than one every 10 ms, but what came last is reported within 0.2 s. Its last line is
    {"messages", "bytes"}.
`latency`  bootstrap, topic, rate, seconds
    {"p50_ms", "p99_ms", "messages"} from the send of a message to partition 0 until the same
    process read it; the consumer is assigned the partition, without a group.
"""

import json
import resource
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from barnabas.bench.compare.kafka_release import ENDING_WITH_US, Unavailable

__all__ = [
    "ROLES",
    "ClientFailed",
    "ClientStuck",
    "Driver",
    "Unavailable",
    "again_if_stuck",
    "answer",
    "run",
]

ROLES: Final = frozenset({"produce", "consume", "latency"})
ENDS_WITHIN_S: Final = 120.0
# A consumer that may spin is stopped sooner, and measured again. It takes five seconds at most,
# where Apache Kafka sends one partition's records every half second.
SPINS_AFTER_S: Final = 12.0
ATTEMPTS: Final = 4
_Found = TypeVar("_Found")


class ClientFailed(Exception):
    """A driver failed or printed no result."""


class ClientStuck(ClientFailed):
    """A driver did not end, or did not go on."""


@dataclass(frozen=True, slots=True)
class Driver:
    """An available client; `version` is shown in the results, empty if unknown.

    `latencies`: the fields of its answer, without their unit. `may_spin`: at times its consumer
    does not end, whatever the broker does; `spun` has the CPU seconds of each time.
    """

    name: str
    command: tuple[str, ...]
    version: str = ""
    roles: frozenset[str] = ROLES
    protocols: frozenset[str] = frozenset({"classic"})
    latencies: tuple[str, ...] = ("p50", "p99")
    may_spin: bool = False
    spun: list[float] = field(default_factory=list, compare=False)


def run(driver: Driver, spec: Mapping[str, object]) -> dict[str, Any]:
    """Run one measurement in a subprocess; `cpu_s` of the result is what it used.

    Raises ClientFailed.
    """
    return again_if_stuck(driver, lambda: _run(driver, spec))


def again_if_stuck(driver: Driver, measure: Callable[[], _Found]) -> _Found:
    """Measure, up to four times if the client may spin. Raises ClientFailed."""
    for _ in range(ATTEMPTS - 1 if driver.may_spin else 0):
        before_s = _cpu_seconds()
        try:
            return measure()
        except ClientStuck:
            driver.spun.append(_cpu_seconds() - before_s)
    return measure()


def _run(driver: Driver, spec: Mapping[str, object]) -> dict[str, Any]:
    is_reading = spec.get("role") != "produce"
    within_s = SPINS_AFTER_S if driver.may_spin and is_reading else ENDS_WITHIN_S
    before_s = _cpu_seconds()
    try:
        ended = subprocess.run(
            [*ENDING_WITH_US, *driver.command, json.dumps(spec)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=within_s,
        )
    except subprocess.TimeoutExpired:
        # Much CPU time: it spun. Next to none: it waited for the cluster or itself.
        what = f"{within_s:.0f} s, with {_cpu_seconds() - before_s:.0f} s of CPU time"
        raise ClientStuck(f"{driver.name} did not end within {what}") from None
    used_s = _cpu_seconds() - before_s
    return answer(driver, ended.returncode, ended.stdout, ended.stderr) | {"cpu_s": used_s}


def _cpu_seconds() -> float:
    """Of the processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer(driver: Driver, code: int, stdout: str, stderr: str) -> dict[str, Any]:
    """The object in the last line of stdout. Raises ClientFailed with the last line of stderr."""
    lines = stdout.split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    if code != 0:
        said = next((line for line in reversed(stderr.splitlines()) if line.strip()), last)
        raise ClientFailed(f"{driver.name} exited with code {code}: {said.strip()[:300]}")
    try:
        found = json.loads(last)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ClientFailed(f"{driver.name} printed no result, but {last[:100]!r}")
    return found
