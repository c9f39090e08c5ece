"""Prepared Produce requests over TLS and SASL: a thread for each connection, a window in flight.

Written in Python, unlike the load generator for plaintext: OpenSSL does most of the work, in large
records and without the interpreter's lock. Its CPU time stands beside the figure of each run.
"""

import struct
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from barnabas.base.errors import PeerGone
from barnabas.bench.limits.load_generator import ConnectionLoad, LoadFailed
from barnabas.bench.limits.load_messages import Exchange, numbered
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.security import SecurityContext

_CONNECTED_WITHIN_S = 20.0
_BEFORE_BODY = 8  # the size and the correlation id, which the connection has checked


def drive_secured(
    host: str, port: int, login: Mapping[str, str], exchange: Exchange, load: ConnectionLoad
) -> float:
    """Requests per second; connection N writes to partition N.

    Raises  LoadFailed, if a response is late, or has an error code or an unexpected offset
    """
    security = SecurityContext.of(login)
    connections = [
        BlockingConnection.connect(
            host,
            port,
            client_id="bench",
            connect_s=_CONNECTED_WITHIN_S,
            response_s=load.seconds,
            security=security,
        )
        for _ in range(load.connections)
    ]
    each = load.requests // load.connections
    try:
        with ThreadPoolExecutor(load.connections) as threads:
            start = time.perf_counter()
            runs = [
                threads.submit(_send_all, connection, exchange, partition, load.window, each)
                for partition, connection in enumerate(connections)
            ]
            for run in runs:
                run.result()
            return each * load.connections / (time.perf_counter() - start)
    except PeerGone as gone:
        raise LoadFailed(str(gone)) from None
    finally:
        for connection in connections:
            connection.close()


def _send_all(
    connection: BlockingConnection, exchange: Exchange, partition: int, window: int, count: int
) -> None:
    request = numbered(exchange.request_for(partition))
    for sent in range(count):
        if sent >= window:
            _check(connection.receive(), exchange, sent - window)
        connection.send(request)
    for answered in range(max(0, count - window), count):
        _check(connection.receive(), exchange, answered)


def _check(response: memoryview, exchange: Exchange, answered: int) -> None:
    """Raises LoadFailed."""
    (error,) = struct.unpack_from(">h", response, exchange.error_at - _BEFORE_BODY)
    if error:
        raise LoadFailed(f"request {answered} got error code {error}")
    (offset,) = struct.unpack_from(">q", response, exchange.offset_at - _BEFORE_BODY)
    if offset != answered * exchange.step:
        raise LoadFailed(f"request {answered} got base offset {offset}")
