"""The table of the states of a connection."""

import pytest

from barnabas.server.network.connection_state import NEXT, ConnectionEvent, ConnectionState


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert set(NEXT) == set(ConnectionState)
    reached, found = {ConnectionState.NEW}, 0
    while len(reached) > found:
        found = len(reached)
        reached |= {to for state in list(reached) for to in NEXT[state].values()}
    assert reached == set(ConnectionState)


@pytest.mark.parametrize("state", [ConnectionState.CLOSING, ConnectionState.CLOSED])
def test_a_connection_that_closes_never_serves_again(state: ConnectionState) -> None:
    assert set(NEXT[state].values()) <= {ConnectionState.CLOSING, ConnectionState.CLOSED}


@pytest.mark.parametrize("state", ConnectionState)
def test_a_connection_may_be_closed_in_every_state(state: ConnectionState) -> None:
    assert ConnectionEvent.CLOSE in NEXT[state]
