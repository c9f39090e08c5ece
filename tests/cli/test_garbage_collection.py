"""Full collections of a broker: none scans again what a long one has scanned."""

import pytest

from barnabas.cli.server.garbage_collection import FREEZE_AFTER_S, FreezeSurvivors


@pytest.mark.parametrize(
    ("generation", "takes_s", "freezes"),
    [(2, 2 * FREEZE_AFTER_S, 1), (2, FREEZE_AFTER_S / 2, 0), (1, 1.0, 0)],
    ids=["long", "short", "of young objects"],
)
def test_the_survivors_of_a_long_full_collection_are_not_scanned_again(
    generation: int, takes_s: float, freezes: int
) -> None:
    times = iter((100.0, 100.0 + takes_s))
    frozen: list[None] = []
    survivors = FreezeSurvivors(lambda: next(times), lambda: frozen.append(None))
    survivors("start", {"generation": generation})
    survivors("stop", {"generation": generation})
    assert len(frozen) == freezes
