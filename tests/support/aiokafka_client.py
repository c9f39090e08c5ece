"""The aiokafka client behind the tests' interface; each call runs on its own event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from typing import Any, TypeVar

import aiokafka
import aiokafka.admin
import aiokafka.admin.config_resource
import aiokafka.codec
import aiokafka.errors

from tests.support.clients import (
    BEGINNING,
    END,
    LONG_POLL_MS,
    MAX_REQUEST_BYTES,
    PATIENCE_S,
    SHORT_POLL_MS,
    Admin,
    Client,
    Message,
    NextMessage,
    Refused,
    Stored,
    refusals_of,
    stored,
)

library: Any = aiokafka
TopicPartition: Any = aiokafka.TopicPartition
Result = TypeVar("Result")


class AiokafkaClient(Client):
    def lacks_codec(self, codec: str) -> str | None:
        if codec == "none" or getattr(library.codec, f"has_{codec}")():
            return None
        return f"aiokafka reports that its module for {codec} is not installed"

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        acks: str = "all",
        compression: str = "none",
        idempotent: bool = False,
    ) -> list[int]:
        async def send() -> list[int]:
            producer = library.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all" if acks == "all" else int(acks),
                compression_type=None if compression == "none" else compression,
                enable_idempotence=idempotent,
                max_request_size=MAX_REQUEST_BYTES,
                linger_ms=5,
            )
            async with producer:
                futures = [
                    await producer.send(
                        topic,
                        value=message.value,
                        key=message.key,
                        headers=list(message.headers),
                        partition=message.partition,
                        timestamp_ms=message.timestamp,
                    )
                    for message in messages
                ]
                sent = await asyncio.wait_for(asyncio.gather(*futures), PATIENCE_S)
            return [] if acks == "0" else [metadata.offset for metadata in sent]

        with refusals():
            return asyncio.run(send())

    @contextmanager
    def reading(
        self,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        start: int = BEGINNING,
        isolation: str = "read_uncommitted",
        poll_ms: int = SHORT_POLL_MS,
    ) -> Iterator[NextMessage]:
        assigned = [TopicPartition(topic, partition) for partition in partitions]
        with asyncio.Runner() as runner:
            consumer = runner.run(self.consumer(isolation, poll_ms))
            try:
                runner.run(assign(consumer, assigned, start))

                def next_message() -> Stored:
                    return stored(runner.run(asyncio.wait_for(consumer.getone(), PATIENCE_S)))

                yield next_message
            finally:
                runner.run(consumer.stop())

    async def consumer(
        self, isolation: str = "read_uncommitted", poll_ms: int = SHORT_POLL_MS
    ) -> Any:
        consumer = library.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            isolation_level=isolation,
            fetch_max_wait_ms=poll_ms,
            request_timeout_ms=LONG_POLL_MS + 10_000,
        )
        await consumer.start()
        return consumer

    def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int | None:
        wanted = TopicPartition(topic, partition)

        async def find() -> Any:
            consumer = await self.consumer()
            try:
                return (await consumer.offsets_for_times({wanted: timestamp}))[wanted]
            finally:
                await consumer.stop()

        found = asyncio.run(find())
        return None if found is None else found.offset


async def assign(consumer: Any, assigned: Sequence[Any], start: int) -> None:
    consumer.assign(assigned)
    if start == BEGINNING:
        await consumer.seek_to_beginning(*assigned)
    elif start == END:
        await consumer.seek_to_end(*assigned)
        for partition in assigned:
            await consumer.position(partition)
    else:
        for partition in assigned:
            consumer.seek(partition, start)


class AiokafkaAdmin(Admin):
    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> None:
        topic = library.admin.NewTopic(name, partitions, 1, topic_configs=dict(configs or {}))
        response = self._run(lambda client: client.create_topics([topic]))
        ((_, code, message),) = response.topic_errors
        check(code, message)

    def delete_topic(self, name: str) -> None:
        response = self._run(lambda client: client.delete_topics([name]))
        ((_, code),) = response.topic_error_codes
        check(code)

    def topics(self) -> list[str]:
        return list(self._run(lambda client: client.list_topics()))

    def leaders(self, name: str) -> dict[int, int]:
        (topic,) = self._run(lambda client: client.describe_topics([name]))
        return {found["partition"]: found["leader"] for found in topic["partitions"]}

    def add_partitions(self, name: str, total: int) -> None:
        new = {name: library.admin.NewPartitions(total)}
        self._run(lambda client: client.create_partitions(new))

    def configs(self, name: str) -> dict[str, str | None]:
        (response,) = self._run(lambda client: client.describe_configs([self.resource(name)]))
        ((code, message, _, _, entries),) = response.resources
        check(code, message)
        return {entry[0]: entry[1] for entry in entries}

    def replace_configs(self, name: str, configs: Mapping[str, str]) -> None:
        resource = self.resource(name, configs)
        (response,) = self._run(lambda client: client.alter_configs([resource]))
        ((code, message, _, _),) = response.resources
        check(code, message)

    def delete_records(self, name: str, before: int, partition: int = 0) -> int:
        wanted = TopicPartition(name, partition)
        deletion = {wanted: library.admin.RecordsToDelete(before)}
        return int(self._run(lambda client: client.delete_records(deletion))[wanted])

    @staticmethod
    def resource(name: str, configs: Mapping[str, str] | None = None) -> Any:
        resources = library.admin.config_resource
        return resources.ConfigResource(resources.ConfigResourceType.TOPIC, name, configs)

    def _run(self, ask: Callable[[Any], Awaitable[Result]]) -> Result:
        async def run() -> Result:
            async with self._connected() as client:
                return await ask(client)

        with refusals():
            return asyncio.run(run())

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        client = library.admin.AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
        await client.start()
        try:
            yield client
        finally:
            await client.close()


def check(code: int, message: str | None = None) -> None:
    if code:
        raise Refused(code, message or library.errors.for_code(code).__name__)


def refusals() -> AbstractContextManager[None]:
    return refusals_of(library.errors.BrokerResponseError)
