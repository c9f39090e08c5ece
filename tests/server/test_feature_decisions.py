"""Finalized features: decided by the controller itself, or asked for by an operator."""

import pytest

from barnabas.base.errors import BrokerError, ErrorCode
from barnabas.server.cluster.feature_decisions import (
    SUPPORTED,
    TRANSACTION_VERSION,
    decide_default,
    decide_update,
)
from barnabas.znodes import layout
from barnabas.znodes.layout import FinalizedFeatures

OURS = SUPPORTED
ON = FinalizedFeatures(enabled=False, levels={TRANSACTION_VERSION: 2})
OFF = FinalizedFeatures(enabled=False)
BY_OPERATOR = FinalizedFeatures(levels={TRANSACTION_VERSION: 2})


def test_a_cluster_of_our_brokers_gets_the_newest_version() -> None:
    assert decide_default(None, {0: OURS, 1: OURS}, frozenset({0, 1})) == ON
    assert decide_default(OFF, {0: OURS}, frozenset()) == ON
    assert decide_default(ON, {0: OURS}, frozenset()) is None


@pytest.mark.parametrize("features", [None, {}])
def test_a_broker_of_kafka_turns_it_off(features: dict[str, layout.VersionRange] | None) -> None:
    live = {0: OURS, 1: features}
    assert decide_default(None, live, frozenset()) is None
    assert decide_default(ON, live, frozenset()) == OFF


def test_it_is_not_turned_on_while_a_broker_is_down_that_may_be_of_kafka() -> None:
    assert decide_default(None, {0: OURS}, frozenset({0, 1})) is None
    assert decide_default(ON, {0: OURS}, frozenset({0, 1})) is None


def test_what_an_operator_or_a_controller_of_kafka_decided_stays() -> None:
    assert decide_default(FinalizedFeatures(), {0: OURS}, frozenset()) is None
    assert decide_default(BY_OPERATOR, {0: OURS, 1: {}}, frozenset()) is None


def test_brokers_of_kafka_ignore_the_node_that_our_controller_writes() -> None:
    """Their listener looks at levels only where the status is 1."""
    assert layout.encode_features(ON) == (
        b'{"features":{"transaction.version":{"max_version_level":2}},"version":2,"status":0}'
    )


def test_an_operator_upgrades_and_with_permission_downgrades() -> None:
    live = {0: OURS}
    assert decide_update(OFF, TRANSACTION_VERSION, 2, False, live) == BY_OPERATOR
    assert decide_update(BY_OPERATOR, TRANSACTION_VERSION, 0, True, live) == FinalizedFeatures()
    assert decide_update(ON, TRANSACTION_VERSION, 1, True, live).levels == {TRANSACTION_VERSION: 1}


@pytest.mark.parametrize(
    ("name", "level", "live"),
    [
        ("nothing", 1, {0: OURS}),
        (TRANSACTION_VERSION, 1, {0: OURS}),  # a downgrade
        (TRANSACTION_VERSION, 3, {0: OURS}),
        (TRANSACTION_VERSION, 2, {0: OURS, 1: {}}),
    ],
)
def test_what_cannot_be_is_refused(
    name: str, level: int, live: dict[int, dict[str, layout.VersionRange]]
) -> None:
    with pytest.raises(BrokerError) as refused:
        decide_update(BY_OPERATOR, name, level, False, live)
    assert refused.value.code is ErrorCode.invalid_request
