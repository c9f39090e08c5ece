"""Brokers that answer requests by script, over Kafka's wire protocol."""

import socketserver
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

from barnabas.base.errors import ErrorCode
from barnabas.wire.apis import APIS, UNADVERTISED, ApiKey
from barnabas.wire.schema import NO_THROTTLE, read_as_sent, write_response
from barnabas.wire.varint import skip_tags

_HEADER = struct.Struct(">hhih")

Script = Callable[[int, Any], Any]  # the broker asked and the request, to a response or None
Partitions = Mapping[int, tuple[int, list[int], list[int]]]  # number to leader, replicas, isr


class ScriptedCluster:
    """Some brokers, their controller and their topics.

    `scripts` answer all but Metadata and ApiVersions, which advertises all that is not `unknown`.
    """

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.controller = 0
        self.topics: dict[str, Partitions] = {}
        self.scripts: dict[ApiKey, Script] = {}
        self.asked: list[tuple[int, Any]] = []
        self.unknown: tuple[ApiKey, ...] = UNADVERTISED

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def requests(self, kind: str) -> list[Any]:
        """All requests of one kind, to any broker."""
        return [request for _, request in self.asked if type(request).__name__ == kind]

    def answer(self, broker_id: int, key: ApiKey, request: Any) -> Any:
        """The response; None to close the connection instead."""
        if key is ApiKey.METADATA:
            return self._metadata(request)
        if key is ApiKey.API_VERSIONS:
            return self._versions()
        self.asked.append((broker_id, request))
        script = self.scripts.get(key)
        return script(broker_id, request) if script is not None else None

    def _versions(self) -> Any:
        return SimpleNamespace(
            error_code=ErrorCode.none,
            api_keys=tuple(
                SimpleNamespace(api_key=key, min_version=api.lowest, max_version=api.highest)
                for key, api in APIS.items()
                if key not in self.unknown
            ),
        )

    def _metadata(self, request: Any) -> MetadataResponse:
        wanted = self.topics if request.topics is None else [each.name for each in request.topics]
        return MetadataResponse(
            throttle_time=NO_THROTTLE,
            brokers=tuple(
                MetadataResponseBroker(node_id=number, host="127.0.0.1", port=port, rack=None)
                for number, port in self.ports.items()
            ),
            controller_id=self.controller,
            topics=tuple(self._topic(name) for name in wanted),
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        known = name in self.topics
        return MetadataResponseTopic(
            error_code=ErrorCode.none if known else ErrorCode.unknown_topic_or_partition,
            name=name,
            topic_id=None,
            partitions=tuple(
                MetadataResponsePartition(
                    error_code=ErrorCode.none,
                    partition_index=number,
                    leader_id=leader,
                    replica_nodes=tuple(replicas),
                    isr_nodes=tuple(isr),
                )
                for number, (leader, replicas, isr) in self.topics.get(name, {}).items()
            ),
        )


@contextmanager
def scripted_cluster(brokers: int) -> Iterator[ScriptedCluster]:
    """The cluster, listening on free ports until the end of the block."""
    cluster = ScriptedCluster()
    servers = [serve(cluster, number) for number in range(brokers)]
    try:
        yield cluster
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve(cluster: ScriptedCluster, broker_id: int, port: int = 0) -> _Server:
    """Start one broker of the cluster in a thread."""

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while size := self.rfile.read(4):
                frame = memoryview(self.rfile.read(int.from_bytes(size, "big")))
                number, version, correlation_id, length = _HEADER.unpack_from(frame)
                key, start = ApiKey(number), _HEADER.size + max(0, length)
                if version >= APIS[key].flexible:
                    start = skip_tags(frame, start)
                request = read_as_sent(key, version, frame[start:])
                response = cluster.answer(broker_id, key, request)
                if response is None:
                    return
                self.wfile.write(write_response(key, version, correlation_id, response))

    server = _Server(("127.0.0.1", port), Connection)
    cluster.ports[broker_id] = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server
