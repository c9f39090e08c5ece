"""The options `kafka.security.*`, `kafka.sasl.*` and `kafka.ssl.*` of the data source."""

import socket
import struct
import threading

import pytest

from barnabas.spark.broker_connection import connect, security_of
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import SparkFailure, WrongOption

PLAIN = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.jaas.config": 'a.PlainLoginModule required username="ann" password="s3c";',
}


def read_options(**more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "any"}
    return SourceOptions.of(given | more, streaming=False)


def test_a_login_that_a_broker_refuses_ends_the_query_with_what_to_do() -> None:
    options = read_options(**PLAIN)
    with socket.create_server(("localhost", 0)) as listener:

        def refuse() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(struct.pack(">iihi", 10, 1, 33, 0))

        thread = threading.Thread(target=refuse)
        thread.start()
        port = listener.getsockname()[1]
        with pytest.raises(SparkFailure) as failed:
            connect("localhost", port, options, security_of(options))
        thread.join(30)

    assert str(failed.value) == (
        f"the broker at localhost:{port} does not have the SASL mechanism PLAIN; see"
        " kafka.security.protocol, kafka.sasl.jaas.config and kafka.ssl.truststore.location"
    )


def test_passwords_are_not_shown_by_what_holds_them() -> None:
    assert "3c" not in repr(read_options(**PLAIN))


def test_an_option_that_cannot_be_meant_is_refused_before_anything_is_read() -> None:
    with pytest.raises(WrongOption) as wrong:
        read_options(**{"kafka.security.protocol": "TLS"})

    assert str(wrong.value) == (
        "option kafka.security.protocol is 'TLS', must be one of PLAINTEXT, SSL, SASL_PLAINTEXT,"
        " SASL_SSL"
    )
