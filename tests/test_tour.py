"""docs/tour.md: its commands run on a real cluster, and the files it recommends are as it says."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documents import (
    SOURCE,
    Running,
    block,
    blocks,
    document,
    names_in,
    occurs_in,
    rows,
)

PAGE = document("docs/tour.md")
TABLE_ROW = re.compile(r"^0 +(\d) +(\S+) +(\S+) +0 +(\d+) +(.+?) *$", re.MULTILINE)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Running]:
    """The cluster of the tour, on free ports."""
    asked = Running("", tmp_path)
    command = shlex.split(asked.here(block(PAGE, "sh", "barnabas cluster")))
    with subprocess.Popen(
        [*command, "--base-port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready "), ready
            yield asked._replace(bootstrap=ready.split()[-1])
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed")
def test_the_commands_of_the_tour_show_a_new_leader_in_a_new_epoch(cluster: Running) -> None:
    _, *commands = blocks(PAGE, "sh")
    printed = cluster.run("sh", "-euc", cluster.here("".join(commands)))
    assert "998\n999\n1000\n" in printed
    before, after = TABLE_ROW.findall(printed)
    leader, replicas, isr, end, state = before
    assert (sorted(isr), end, state) == (sorted(replicas), "1000", "ok")
    new_leader, same_replicas, smaller_isr, new_end, _ = after
    assert new_leader != leader
    assert (same_replicas, new_end) == (replicas, "1001")
    assert set(smaller_isr.split(",")) == set(replicas.split(",")) - {leader}
    epochs = [int(epoch) for epoch in re.findall(r"^batch .*leader_epoch=(\d+)", printed, re.M)]
    assert epochs == sorted(epochs)
    assert epochs[-1] > epochs[0]
    assert len(re.findall(r"^epoch ", printed, re.M)) == len(set(epochs))


def test_the_tables_shown_have_the_form_of_those_printed() -> None:
    shown = [TABLE_ROW.findall(each) for each in blocks(PAGE, "")]
    assert [len(each) for each in shown] == [1, 1]


def test_the_six_files_have_what_the_tour_says_to_look_for() -> None:
    read = rows(PAGE, "| File")
    assert [number for number, _, _ in read] == list("123456")
    for _, file, words in read:
        path = SOURCE / file.strip("`")
        assert len(path.read_text().splitlines()) <= 550
        assert names_in(words), file
        for name in names_in(words):
            assert occurs_in(name, path), f"{file} has no {name}"
