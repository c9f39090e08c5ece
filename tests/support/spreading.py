"""The distribution of tests over processes: tests that share a slow fixture stay together.

The tests of a file are one group, and so are all that use the Spark session. The mark
`xdist_group` makes other groups, for long tests that share nothing. xdist's own scheduler encodes
groups in test names, which current pytest does not let it change; so each process writes the
groups of its collected tests to a file that the scheduler reads.
"""

import json
import os
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK: Final = "the Spark session"
# These mostly wait: for brokers, browsers, other programs. Commands, whose output is compared, come
# first: clients of other tests would print into it. Then the longest, so that all processes end at
# about the same time.
WAITING: Final = (
    "tests/cli/",
    "tests/chaos/",
    "tests/cluster/",
    "tests/demo/",
    "tests/spark/",
    "tests/clients/",
    "tests/interop/",
    "tests/testing/",
    "tests/console/",
    "tests/bench/",
    "tests/test_readme.py",
    "tests/znodes/",
)
# All others compute, the longest first. One process does so while others wait, so that a processor
# is neither idle nor overloaded; at the end all do.
COMPUTING: Final = (
    "tests/sim/",
    "tests/test_tidy.py",
    "tests/server/",
    "tests/log/",
    "tests/wire/",
)
COMPUTING_AT_ONCE: Final = 1


class Spread(LoadScopeScheduling):
    """Assigns groups in the order in which their first tests were collected, of each kind."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._group_of: dict[str, str] = {}
        self._waiting: set[str] = set()
        self._last_of: dict[Any, str] = {}

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        written = _written_by(self.config, node.workerinput)
        self._group_of |= json.loads(written.read_text())
        written.unlink()
        self._waiting |= {
            group
            for name, group in self._group_of.items()
            if group == SPARK or name.startswith(WAITING)
        }
        super().add_node_collection(node, collection)

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of[nodeid]

    def _assign_work_unit(self, node: Any) -> None:
        last = [
            self._last_of[each] for each in self.nodes if each in self._last_of and each != node
        ]
        group = next_group(list(self.workqueue), last, self._waiting)
        self._last_of[node] = group
        self.workqueue.move_to_end(group, last=False)
        super()._assign_work_unit(node)


def next_group(queue: Sequence[str], others: Sequence[str], waiting: Collection[str]) -> str:
    """The first group that computes, if too few of the other processes do; else one that waits.

    Where there is none of that kind it is the first of all.
    """
    computing = sum(group not in waiting for group in others)
    is_to_wait = computing >= COMPUTING_AT_ONCE
    return next((group for group in queue if (group in waiting) == is_to_wait), queue[0])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spread | None:
    return Spread(config, log) if config.getvalue("dist") == "loadgroup" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Begin each process at another place of the suite.

    On a fresh clone pytest compiles every test file, and keeps what it compiled: so the processes
    compile a part each, instead of all of them everything.
    """
    config = session.config
    if hasattr(config, "workerinput") and config.args == config.getini("testpaths"):
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        count = int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        parts = {str(part): _size(part) for folder in config.args for part in _parts(Path(folder))}
        config.args = rotated(parts, number / count)


def rotated(sizes: Mapping[str, int], share: float) -> list[str]:
    """The names, from the one at this share of the whole size on, and those before it behind."""
    names, ends = list(sizes), list(accumulate(sizes.values()))
    first = next((at for at, end in enumerate(ends) if end > share * ends[-1]), 0)
    return names[first:] + names[:first]


def _parts(folder: Path) -> list[Path]:
    """The directories and files with tests."""
    found = (each for each in folder.iterdir() if each.is_dir() or each.match("test_*.py"))
    return sorted(each for each in found if _size(each))


def _size(part: Path) -> int:
    files = part.rglob("test_*.py") if part.is_dir() else [part]
    return sum(file.stat().st_size for file in files)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    groups = _groups(items)
    items.sort(key=lambda item: (_turn(item, groups[item.nodeid]), item.path))


@pytest.hookimpl(tryfirst=True)  # the names of the collected tests are sent right after this
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


def _turn(item: pytest.Item, group: str) -> tuple[bool, int]:
    order = (*WAITING, *COMPUTING)
    ranks = (rank for rank, prefix in enumerate(order) if item.nodeid.startswith(prefix))
    return group != SPARK, next(ranks, len(order))


def _written_by(config: pytest.Config, about_worker: Mapping[str, Any]) -> Path:
    """The file to which a worker writes the groups of its collected tests."""
    assert config.cache is not None
    name = f"{about_worker['testrunuid']}-{about_worker['workerid']}.json"
    return config.cache.mkdir("groups") / name
