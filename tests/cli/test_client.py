"""How a command tells what a broker answered."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException

from barnabas.cli.client import await_one
from barnabas.cli.exit_codes import CommandFailed


def refused(code: int, words: str | None = None) -> str:
    answer: Future[None] = Future()
    answer.set_exception(KafkaException(KafkaError(code, words) if words else KafkaError(code)))
    with pytest.raises(CommandFailed) as failed:
        await_one(answer, "orders")
    return str(failed.value)


def test_a_timed_out_operation_is_reported_as_one_that_may_complete_later() -> None:
    assert refused(KafkaError.REQUEST_TIMED_OUT) == (
        "orders: Request timed out [REQUEST_TIMED_OUT];"
        " the cluster may do it later, when the brokers that it needs are up"
    )


def test_what_a_broker_could_not_begin_is_not_said_to_come_later() -> None:
    words = "the coordination service does not respond: lost"
    assert refused(KafkaError.REQUEST_TIMED_OUT, words) == f"orders: {words} [REQUEST_TIMED_OUT]"


def test_a_refusal_is_reported_in_the_brokers_words() -> None:
    assert refused(KafkaError.TOPIC_ALREADY_EXISTS) == (
        "orders: Topic already exists [TOPIC_ALREADY_EXISTS]"
    )
