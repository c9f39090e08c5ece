"""Checks that ask brokers: their log directories and disks, and hanging transactions."""

from collections.abc import Iterator
from concurrent.futures import TimeoutError as NotInTime
from typing import Any, Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from barnabas.base.errors import ErrorCode, PeerGone
from barnabas.cli.client import admin
from barnabas.cli.doctor.finding import Finding, first_of, problem
from barnabas.cli.doctor.machine_checks import decide_space
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.raw_client import RawClient
from barnabas.cli.show import counted
from barnabas.cli.txns.hanging import find_hanging
from barnabas.client.metadata import fields
from barnabas.wire.apis import ApiKey

_TIMEOUT_S: Final = 10.0
_LONGEST_TRANSACTION_MINUTES: Final = 15


async def check_log_dirs(client: RawClient, brokers: list[int]) -> list[Finding]:
    """Brokers that do not answer; failed log directories; full disks, from Kafka 3.3 on."""
    found: list[Finding] = []
    for broker in sorted(brokers):
        try:
            answer = await client.ask(broker, ApiKey.DESCRIBE_LOG_DIRS, fields(topics=()))
        except PeerGone as gone:
            found.append(
                problem(
                    "answers",
                    f"broker {broker} is connected to, but does not answer ({gone})",
                    "its process is paused, overloaded or waits for its disk: see its log and the"
                    " machine's load, and restart it if it stays so",
                )
            )
            continue
        except CommandFailed:
            continue  # it does not know the request, or does not let us ask
        for result in answer.results:
            found += _log_dir(broker, result)
    return found


def _log_dir(broker: int, result: Any) -> Iterator[Finding]:
    where = f"log directory {result.log_dir} of broker {broker}"
    if result.error_code is not ErrorCode.none:
        yield problem(
            "log-dirs",
            f"{where} is offline ({result.error_code.name})",
            "replace the disk, then restart the broker: it copies its replicas from the leaders",
        )
    elif getattr(result, "total_bytes", -1) > 0:
        finding = decide_space(where, result.total_bytes, result.usable_bytes)
        if finding is not None:
            yield finding


async def check_transactions(client: RawClient, now_ms: int) -> list[Finding]:
    try:
        hanging = await find_hanging(
            client,
            now_ms,
            broker=None,
            topic=None,
            partition=None,
            max_timeout_minutes=_LONGEST_TRANSACTION_MINUTES,
        )
    except (PeerGone, CommandFailed):
        return []  # brokers before Kafka 3.0 do not say, nor does a partition without a leader
    if not hanging:
        return []
    names = [f"{each.at.topic}-{each.at.partition}" for each in hanging]
    first = hanging[0]
    return [
        problem(
            "transactions",
            f"{counted(len(names), 'transaction')} that nobody will end: readers of committed"
            f" records stop before them in {first_of(names)}",
            f"`barnabas txns abort --topic {first.at.topic} --partition {first.at.partition}"
            f" --start-offset {first.start_offset}`, and so on for each",
        )
    ]


def min_insync_replicas(client: AdminClient, topics: list[str]) -> dict[str, int]:
    """min.insync.replicas of these topics, of those whose configs can be read."""
    resources = [admin.ConfigResource(admin.ConfigResource.Type.TOPIC, topic) for topic in topics]
    found = {}
    asked = client.describe_configs(resources, request_timeout=_TIMEOUT_S) if resources else {}
    for resource, future in asked.items():
        try:
            found[resource.name] = int(future.result(_TIMEOUT_S)["min.insync.replicas"].value)
        except (KafkaException, KeyError, NotInTime):
            continue
    return found
