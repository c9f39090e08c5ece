"""Spreads the tests over processes: those that share what is slow to start stay together.

The tests of a file are one group, and so are all that use the one Spark session. A mark,
`xdist_group`, makes other groups, for tests that share nothing and take long. The mark's own
scheduler learns of groups by names that today's pytest does not let it change; so each process
writes down the groups of the tests it has collected, for the scheduler to read.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK: Final = "the Spark session"
# What takes longest begins first, so that no process is still at it when the others are done.
# Before it come the commands, whose output is compared: clients that others have left print, too.
FIRST: Final = (
    "tests/cli/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/demo/",
    "tests/spark/",
    "tests/clients/",
    "tests/sim/",
    "tests/interop/",
    "tests/testing/",
    "tests/bench/",
    "tests/test_readme.py",
    "tests/test_tidy.py",
    "tests/znodes/",
    "tests/server/",
    "tests/log/",
    "tests/wire/",
)
# The first half of those wait most of the time. These compute: so they come one by one among them,
# that neither all processors stand idle nor everything has to share them.
COMPUTING: Final = tuple(f"tests/sim/test_{name}.py" for name in ("mutations", "replay", "seeds"))


class Spread(LoadScopeScheduling):
    """Hands out groups in the order in which their first tests were collected."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._group_of: dict[str, str] = {}

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        written = _written_by(self.config, node.workerinput)
        self._group_of |= json.loads(written.read_text())
        written.unlink()
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of[nodeid]


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spread | None:
    return Spread(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = _groups(items)
    items.sort(key=lambda item: _turn(item, groups[item.nodeid]))
    computing, others = _by_work({groups[item.nodeid]: item for item in items})
    places = {group: float(place) for place, group in enumerate(others)}
    for number, group in enumerate(computing):
        places[group] = (number + 0.5) * len(others) / len(computing) / 2
    items.sort(key=lambda item: places[groups[item.nodeid]])


@pytest.hookimpl(tryfirst=True)  # the names of what was collected are sent right after this
def pytest_collection_finish(session: pytest.Session) -> None:
    about_worker = getattr(session.config, "workerinput", None)
    if about_worker is not None:
        groups = _groups(session.items)
        _written_by(session.config, about_worker).write_text(json.dumps(groups))


def _groups(items: Collection[pytest.Item]) -> dict[str, str]:
    """The group of each test, by its name."""
    on_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    return {item.nodeid: _group(item, item.path in on_spark) for item in items}


def _group(item: pytest.Item, is_on_spark: bool) -> str:
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        return str(mark.args[0])
    return SPARK if is_on_spark else item.nodeid.partition("::")[0]


def _by_work(groups: Mapping[str, pytest.Item]) -> tuple[list[str], list[str]]:
    """The groups that compute, and all others, by one test of each; both in their order."""
    computing = [name for name, item in groups.items() if item.nodeid.startswith(COMPUTING)]
    return computing, [name for name in groups if name not in computing]


def _turn(item: pytest.Item, group: str) -> tuple[bool, int]:
    ranks = (rank for rank, prefix in enumerate(FIRST) if item.nodeid.startswith(prefix))
    return group != SPARK, next(ranks, len(FIRST))


def _written_by(config: pytest.Config, about_worker: Mapping[str, Any]) -> Path:
    """Where the worker writes the groups of what it has collected."""
    assert config.cache is not None
    name = f"{about_worker['testrunuid']}-{about_worker['workerid']}.json"
    return config.cache.mkdir("groups") / name
