"""The responses to Produce: kept ready per partition, with errors counted, none for acks=0."""

from collections import Counter
from typing import Final

from barnabas.base.errors import BarnabasError, ErrorCode
from barnabas.wire.produce.plain_batch import Answer as PlainAnswer
from barnabas.wire.produce.produce_codec import (
    PartitionProduced,
    ProduceRequest,
    success,
    write_produce,
)

# The number of partitions whose responses are kept ready.
REMEMBERED: Final = 10_000

Topics = list[tuple[str, list[PartitionProduced]]]


class SilentFailure(BarnabasError):
    """A request with acks=0 failed: only a closed connection can report that."""


class ProduceResponses:
    """Writes responses; `errors` counts what partitions are refused for, by its code."""

    def __init__(self, errors: Counter[int]) -> None:
        self._errors = errors
        self._successes: dict[tuple[int, str, int], PlainAnswer] = {}

    def success(self, *key: *tuple[int, str, int]) -> PlainAnswer:
        """The response for one batch that was appended: by version, topic and partition."""
        answer = self._successes.get(key)
        if answer is None:
            if len(self._successes) >= REMEMBERED:
                self._successes.clear()
            answer = self._successes[key] = success(*key)
        return answer

    def reply(self, version: int, correlation_id: int, acks: int, topics: Topics) -> bytes | None:
        """The response; None with acks=0. Raises SilentFailure if a partition failed then."""
        if acks != 0:
            return self.written(version, correlation_id, topics)
        for code in self._count_errors(topics):
            raise SilentFailure(f"produce with acks=0 failed code={ErrorCode(code).name}")
        return None

    def written(self, version: int, correlation_id: int, topics: Topics) -> bytes:
        self._count_errors(topics)
        return write_produce(version, correlation_id, topics)

    def _count_errors(self, topics: Topics) -> list[int]:
        codes = [each.code for _, partitions in topics for each in partitions if each.code]
        self._errors.update(codes)
        return codes


def by_topic(request: ProduceRequest, produced: list[PartitionProduced]) -> Topics:
    topics: Topics = []
    last = None
    for batches, partition in zip(request.partitions, produced, strict=True):
        if batches.topic != last:
            last = batches.topic
            topics.append((last, []))
        topics[-1][1].append(partition)
    return topics
