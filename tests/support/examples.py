"""The examples of properties: the same ones in each run, or a random search for others.

`make test` and CI try the same examples each time, so that a red run is the fault of a change.
`make search` sets BARNABAS_SEARCH to a factor. Then only properties run, with random examples, and
with that many times as many.
"""

import os
from collections.abc import Iterator
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, settings

SEARCH: Final = "BARNABAS_SEARCH"
FACTOR: Final = int(os.environ.get(SEARCH, "0"))
# Hypothesis has no public way to change the number of examples of a test that sets its own.
_SETTINGS_OF_A_TEST: Final = "_hypothesis_internal_use_settings"

# How long an example takes says something of the machine, not of what is tested.
settings.register_profile(
    "barnabas",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not FACTOR,
)
settings.load_profile("barnabas")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not FACTOR:
        return
    places = {item: list(_settings_of(item)) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not places[item]])
    items[:] = [item for item in items if places[item]]
    # Tests with parameters share one function, whose settings must grow once.
    for owner, name in {place for item in items for place in places[item]}:
        own = getattr(owner, name)
        setattr(owner, name, settings(own, max_examples=own.max_examples * FACTOR))


def _settings_of(item: pytest.Item) -> Iterator[tuple[Any, str]]:
    """The place of a property's settings: its function, or the test case of a state machine."""
    function = getattr(item, "obj", None)
    function = getattr(function, "__func__", function)
    if hasattr(function, "hypothesis"):
        yield function, _SETTINGS_OF_A_TEST
    case = getattr(item, "cls", None)
    if isinstance(getattr(case, "settings", None), settings):
        yield case, "settings"
