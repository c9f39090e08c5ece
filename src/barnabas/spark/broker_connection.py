"""Connections of the data source to brokers, as the options `kafka.*` want them."""

from typing import Final

from barnabas.base.errors import ConfigError
from barnabas.client.blocking_connection import BlockingConnection
from barnabas.client.security import PLAINTEXT, AuthenticationFailed, SecurityContext
from barnabas.spark.source.source_options import SourceOptions
from barnabas.spark.user_errors import SparkFailure, WrongOption

CLIENT_ID: Final = "barnabas-spark"
_DEFAULT_API_TIMEOUT_MS: Final = 60_000
_DEFAULT_REQUEST_TIMEOUT_MS: Final = 30_000
_MOST_CONNECT_S: Final = 5.0


def api_timeout_s(options: SourceOptions) -> float:
    """The time for which a request is retried before the query fails. Raises WrongOption."""
    return options.property_number("default.api.timeout.ms", _DEFAULT_API_TIMEOUT_MS) / 1000


def security_of(options: SourceOptions) -> SecurityContext:
    """Raises  WrongOption"""
    if not options.is_secured:
        return PLAINTEXT
    try:
        return SecurityContext.of(options.kafka)
    except ConfigError as wrong:
        raise WrongOption(f"option kafka.{wrong}") from None


def connect(
    host: str, port: int, options: SourceOptions, security: SecurityContext
) -> BlockingConnection:
    """Raises  PeerGone, if the broker is not reached in time
    SparkFailure, if either side does not trust the other
    """
    response_s = options.property_number("request.timeout.ms", _DEFAULT_REQUEST_TIMEOUT_MS) / 1000
    try:
        return BlockingConnection.connect(
            host,
            port,
            client_id=CLIENT_ID,
            connect_s=min(_MOST_CONNECT_S, response_s),
            response_s=response_s,
            security=security,
        )
    except AuthenticationFailed as failure:
        raise SparkFailure(
            f"{failure}; see kafka.security.protocol, kafka.sasl.jaas.config and"
            " kafka.ssl.truststore.location"
        ) from None
