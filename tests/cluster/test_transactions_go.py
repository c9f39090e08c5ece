"""Transactions of franz-go on three brokers; skipped where Go or its modules cannot be had."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.cluster.test_exactly_once import coordinator, started
from tests.support.cluster import Cluster
from tests.support.go_program import go_program
from tests.support.transforming import read_committed
from tests.support.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SOURCE: Final = Path(__file__).parent.parent / "clients" / "franz_go" / "main.go"
WITHIN_S: Final = 240.0


@contextmanager
def copying(bootstrap: str, log: Path) -> Iterator[None]:
    """The copy, until the end of the block: then it is killed."""
    with log.open("ab") as said:
        command = [str(go_program(SOURCE)), "copy", bootstrap]
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_franz_go_commits_and_aborts(fresh_cluster: Callable[..., Cluster]) -> None:
    program = go_program(SOURCE)
    cluster = started(fresh_cluster, 0)
    count = 40
    command = [str(program), "transact", cluster.bootstrap, str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S)
    assert ended.stdout == "done\n", ended.stderr
    until(lambda: read_committed(cluster.bootstrap, "out"), "the last markers")
    assert read_committed(cluster.bootstrap, "out") == list(range(0, count, 2))


def test_franz_go_copies_exactly_once_through_kills_of_the_coordinator_and_of_itself(
    fresh_cluster: Callable[..., Cluster], tmp_path: Path
) -> None:
    go_program(SOURCE)
    count = 600
    cluster = started(fresh_cluster, count)
    log = tmp_path / "copy.log"

    def committed(least: int) -> None:
        until(
            lambda: len(read_committed(cluster.bootstrap, "out")) >= least, log.read_text, WITHIN_S
        )

    with copying(cluster.bootstrap, log):
        committed(40)
        victim = coordinator(cluster, "franz-copy")
        cluster.brokers[victim].kill()
        committed(200)
    cluster.start([victim])
    cluster.wait_settled()
    with copying(cluster.bootstrap, log):
        committed(count)
    assert read_committed(cluster.bootstrap, "out") == list(range(count))
