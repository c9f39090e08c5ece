"""librdkafka's clients of one cluster, connected before use, and their errors as one line."""

import contextlib
import difflib
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from barnabas.base.errors import ConfigError
from barnabas.cli.connecting import CHECK_CREDENTIALS, given_properties, is_refusal, unreached
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import parse_bootstrap, parse_pairs
from barnabas.client.librdkafka_names import librdkafka_names

if TYPE_CHECKING:
    from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata

# The names in here are public, but not declared so that a type checker would believe it.
admin: Any = confluent_kafka.admin

_REQUEST_TIMEOUT_S: Final = 30.0
# A broker waits so long for an operation: it answers before this client gives up.
_OPERATION_TIMEOUT_S: Final = 25.0
_ATTEMPT_S: Final = 0.5
_ATTEMPTS: Final = 10
_LATE: Final = "; the cluster may do it later, when the brokers that it needs are up"
# A name with two addresses may be refused on one and answered on the other, so not at once.
_ATTEMPTS_WHEN_REFUSED: Final = 2

# An election takes milliseconds; a partition that then has no leader lacks its brokers.
_ATTEMPTS_FOR_A_LEADER: Final = 5

# Kafka names the resource before it says what is wrong, and so do we already.
_RESOURCE: Final = re.compile(r"Invalid config value for resource ConfigResource\([^)]*\): ")

_REFUSALS: Final = (KafkaError._AUTHENTICATION, KafkaError._SSL)

# Fatal errors are logged at every log_level; they are reported as errors, too.
_SILENT: Final = logging.Logger("librdkafka", logging.CRITICAL + 1)

Client = TypeVar("Client", AdminClient, Consumer, Producer)
Result = TypeVar("Result")


class ClusterClients:
    """The librdkafka clients of one cluster: its bootstrap brokers, and the properties of each."""

    def __init__(self, bootstrap: str, properties: list[str] | None) -> None:
        self.bootstrap = parse_bootstrap(bootstrap)
        self._properties = _properties(properties)
        self._errors: list[KafkaError] = []

    def admin(self) -> "tuple[AdminClient, ClusterMetadata]":
        return self._connect(AdminClient, {})

    def producer(self, settings: Mapping[str, object]) -> "tuple[Producer, ClusterMetadata]":
        return self._connect(Producer, settings)

    def consumer(self, settings: Mapping[str, object]) -> "tuple[Consumer, ClusterMetadata]":
        return self._connect(Consumer, settings)

    @property
    def is_down(self) -> bool:
        """True if all brokers were unreachable at some time since the last call."""
        down = any(error.code() == KafkaError._ALL_BROKERS_DOWN for error in self._errors)
        self._errors.clear()
        return down

    def _connect(
        self, kind: Callable[[dict[str, Any]], Client], settings: Mapping[str, object]
    ) -> "tuple[Client, ClusterMetadata]":
        """A client that has got the cluster's metadata, and that metadata.

        Raises  CommandFailed within about 5 seconds if no broker answers,
                Misused if librdkafka refuses a property
        """
        configuration = {
            "bootstrap.servers": self.bootstrap,
            "client.id": "barnabas-cli",
            "error_cb": self._errors.append,
            **({} if "debug" in self._properties else {"log_level": 0, "logger": _SILENT}),
            **settings,
            **self._properties,
        }
        try:
            client = kind(configuration)
        except KafkaException as failure:
            raise Misused(f"-X: {failure.args[0].str()}") from None
        return client, self._reach(client)

    def _reach(self, client: AdminClient | Consumer | Producer) -> "ClusterMetadata":
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return client.list_topics(timeout=_ATTEMPT_S)
            except KafkaException:
                client.poll(0)
            if self._errors and attempt >= _ATTEMPTS_WHEN_REFUSED:
                break
        if any(error.code() in _REFUSALS or is_refusal(error.str()) for error in self._errors):
            raise CommandFailed(
                f"{self.bootstrap} refuses the connection{self._reason()}; {CHECK_CREDENTIALS}"
            )
        # librdkafka tells why no connection is made, but not why one is closed.
        reason = self._reason()
        raise CommandFailed(
            unreached(self.bootstrap, reason, closed=bool(self._errors) and not reason)
        )

    def _reason(self) -> str:
        """The error of the first failed connection, without librdkafka's decoration."""
        for error in self._errors:
            if error.code() not in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT):
                text = error.str().partition(": ")[2].partition(" (after ")[0]
                return f" ({text})" if text else ""
        return ""


def _properties(given: list[str] | None) -> dict[str, str]:
    """The properties of -X and --command-config, in librdkafka's names. Raises Misused."""
    try:
        return librdkafka_names({**given_properties(), **parse_pairs(given, "-X")})
    except ConfigError as wrong:
        raise Misused(str(wrong)) from None


def find_topic(metadata: "ClusterMetadata", name: str, remedy: str = "") -> "TopicMetadata":
    """The topic's metadata. Raises CommandFailed, with the likeliest name, if there is none."""
    found = metadata.topics.get(name)
    if found is None:
        likely = difflib.get_close_matches(name, metadata.topics, n=1)
        hint = f"did you mean {likely[0]}?" if likely else "`barnabas topics list` shows all"
        raise CommandFailed(f"there is no topic {name} ({hint}){remedy}")
    if found.error is not None:
        fail(found.error, f"topic {name}")
    return found


def without_leader(metadata: "ClusterMetadata", topic: str, partitions: Iterable[int]) -> str:
    """A sentence on the first of these partitions without a leader; empty if all have one."""
    for number in partitions:
        found = metadata.topics[topic].partitions.get(number)
        if found is not None and found.leader not in metadata.brokers:
            down = [str(broker) for broker in found.replicas if broker not in metadata.brokers]
            why = f": brokers that hold it are down ({', '.join(down)})" if down else ""
            return f"{topic} [{number}] has no leader now{why}"
    return ""


def await_leaders(
    client: Consumer | Producer, metadata: "ClusterMetadata", topic: str, partitions: list[int]
) -> None:
    """Wait a moment for elections that are under way.

    Raises  CommandFailed if one of the partitions has no leader after it
    """
    for _ in range(_ATTEMPTS_FOR_A_LEADER):
        if not without_leader(metadata, topic, partitions):
            return
        with contextlib.suppress(KafkaException):  # then by what was known before
            client.poll(_ATTEMPT_S)
            metadata = client.list_topics(topic, timeout=_ATTEMPT_S)
    if missing := without_leader(metadata, topic, partitions):
        raise CommandFailed(missing)


def create_topics(client: AdminClient, topics: list[Any]) -> None:
    """Returns when all have leaders. Raises CommandFailed for the first that is refused."""
    await_all(client.create_topics(topics, operation_timeout=_OPERATION_TIMEOUT_S))


def create_partitions(client: AdminClient, topic: str, total: int) -> None:
    """Returns when the partitions have leaders. Raises CommandFailed."""
    wanted = [admin.NewPartitions(topic, total)]
    await_all(client.create_partitions(wanted, operation_timeout=_OPERATION_TIMEOUT_S))


def delete_topics(client: AdminClient, topics: list[str]) -> "dict[str, Future[None]]":
    """A future for each topic; it ends when no broker serves the topic any more."""
    return client.delete_topics(topics, operation_timeout=_OPERATION_TIMEOUT_S)


def await_all(futures: Mapping[Any, "Future[Result]"]) -> list[Result]:
    """All results, in order. Raises CommandFailed for the first that failed."""
    return [await_one(future, str(key)) for key, future in futures.items()]


def await_one(future: "Future[Result]", subject: str) -> Result:
    try:
        return future.result(_REQUEST_TIMEOUT_S)
    except KafkaException as failure:
        error = failure.args[0]
        # A broker that has words of its own for it has not begun.
        is_late = error.str() == KafkaError(KafkaError.REQUEST_TIMED_OUT).str()
        raise CommandFailed(f"{subject}: {explain(error)}{_LATE if is_late else ''}") from None
    except (TimeoutError, ValueError, TypeError) as failure:
        raise CommandFailed(f"{subject}: {str(failure) or 'the broker did not answer'}") from None


def fail(error: KafkaError, subject: str) -> NoReturn:
    raise CommandFailed(f"{subject}: {explain(error)}") from None


def explain(error: KafkaError) -> str:
    """The broker's own words, or librdkafka's, and the name of the error."""
    text = error.str().removeprefix("Broker: ").removeprefix("Local: ").rstrip(".")
    return f"{_RESOURCE.sub('', text)} [{error.name()}]"


def check_partitions(topic: "TopicMetadata", wanted: Iterable[int]) -> list[int]:
    """The partitions wanted, or all. Raises CommandFailed if the topic has no such partition."""
    existing = sorted(topic.partitions)
    chosen = list(dict.fromkeys(wanted)) or existing
    for partition in chosen:
        if partition not in topic.partitions:
            only = (
                f"{existing[0]} to {existing[-1]}" if existing[1:] else f"partition {existing[0]}"
            )
            raise CommandFailed(f"topic {topic.topic} has no partition {partition}, only {only}")
    return chosen
