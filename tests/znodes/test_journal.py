"""The journal: acknowledged transactions survive a crash, wherever it truncated the file."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Coroutine
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from barnabas.base.errors import DiskFault
from barnabas.base.offload import InlineOffload
from barnabas.disk.disk import RealDisk
from barnabas.znodes.embedded.embedded_tree import Tree
from barnabas.znodes.embedded.journal import FILE, Journal, JournalDamaged
from barnabas.znodes.embedded.nodes import Created, Nodes
from barnabas.znodes.tree import CreateNode, SetData, Stat

T = TypeVar("T")
Image = dict[str, tuple[bytes, Stat]]


def image_of(nodes: Nodes) -> Image:
    return {path: (node.data, node.stat) for path, node in nodes}


def reopened(folder: Path) -> Nodes:
    disk = RealDisk(str(folder))
    disk.make_dir("")
    return Journal(disk).open()


async def opened(folder: Path) -> Tree:
    disk = RealDisk(str(folder))
    disk.make_dir("")
    return Tree.open(disk, InlineOffload())


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(scenario)


async def write_history(folder: Path) -> dict[int, tuple[int, Image]]:
    """A few transactions; by the file's size after each: its zxid and the tree."""
    tree, file = await opened(folder), folder / FILE
    session, history = tree.session(), {}
    for step in (
        lambda: session.create("/brokers/ids", make_parents=True),
        lambda: session.create("/brokers/ids/0", b'{"version":5}', ephemeral=True),
        lambda: session.create("/bytes", b"\x00\xff\n\r\xc3\xa4 \xed\xb2\x80 \xf0\x9f\x98\x80\x80"),
        lambda: session.multi([SetData("/bytes", b""), CreateNode("/n_", sequential=True)]),
        lambda: session.create("/n_", b"\n", sequential=True),
        lambda: session.delete("/bytes", 1),
        lambda: session.set("/brokers", b"{}"),
    ):
        history[file.stat().st_size] = (tree.nodes.zxid, image_of(tree.nodes))
        await step()
    history[file.stat().st_size] = (tree.nodes.zxid, image_of(tree.nodes))
    await tree.close()
    return history


def test_a_file_truncated_anywhere_has_the_last_complete_transaction(tmp_path: Path) -> None:
    history = run(write_history(tmp_path / "whole"))
    data = (tmp_path / "whole" / FILE).read_bytes()
    for cut in range(min(history), len(data) + 1):
        (tmp_path / FILE).write_bytes(data[:cut])
        acknowledged = max(size for size in history if size <= cut)
        nodes = reopened(tmp_path)
        assert (nodes.zxid, image_of(nodes)) == history[acknowledged]
        assert (tmp_path / FILE).stat().st_size == acknowledged


@pytest.mark.parametrize("garbage", [b"\x00" * 50, b"\n\n\n", b"00000000 00000002 []\nxyz\n"])
def test_garbage_after_the_last_transaction_is_dropped(tmp_path: Path, garbage: bytes) -> None:
    history = run(write_history(tmp_path))
    with (tmp_path / FILE).open("ab") as file:
        file.write(garbage)
    nodes = reopened(tmp_path)
    assert (nodes.zxid, image_of(nodes)) == history[max(history)]
    assert (tmp_path / FILE).stat().st_size == max(history)


def test_a_tree_continues_after_a_torn_tail(tmp_path: Path) -> None:
    async def scenario() -> None:
        history = await write_history(tmp_path)
        with (tmp_path / FILE).open("ab") as file:
            file.write(b"0badc0de 00000010 [9,[[")
        tree = await opened(tmp_path)
        # The restart is a transaction: it ended the session with the ephemeral node.
        assert tree.nodes.zxid == history[max(history)][0] + 1
        await tree.session().create("/after")
        await tree.close()
        assert "/after" in reopened(tmp_path)

    run(scenario())


def test_any_flipped_bit_before_the_last_line_is_reported_with_file_and_offset(
    tmp_path: Path,
) -> None:
    run(write_history(tmp_path / "whole"))
    data = bytearray((tmp_path / "whole" / FILE).read_bytes())
    last_line = data.rindex(b"\n", 0, len(data) - 1) + 1
    for position in range(0, last_line - 1, 3):
        data[position] ^= 1 << position % 8
        (tmp_path / FILE).write_bytes(data)
        with pytest.raises(JournalDamaged, match="is damaged at byte") as damaged:
            reopened(tmp_path)
        data[position] ^= 1 << position % 8
        start_of_line = data.rfind(b"\n", 0, position) + 1
        assert damaged.value.file == str(tmp_path / FILE)
        assert damaged.value.offset in (0, start_of_line)
        assert (tmp_path / FILE).stat().st_size == len(data)


def test_a_lost_line_and_a_truncated_snapshot_are_corruption(tmp_path: Path) -> None:
    run(write_history(tmp_path))
    lines = (tmp_path / FILE).read_bytes().splitlines(keepends=True)
    (tmp_path / FILE).write_bytes(b"".join(lines[:4] + lines[5:]))
    with pytest.raises(JournalDamaged, match="transaction 4 follows 2"):
        reopened(tmp_path)
    (tmp_path / FILE).write_bytes(lines[0])
    with pytest.raises(JournalDamaged, match="the snapshot is truncated"):
        reopened(tmp_path)
    (tmp_path / FILE).write_bytes(b"")
    with pytest.raises(JournalDamaged, match="byte 0: it has no header of"):
        reopened(tmp_path)


def test_a_restart_keeps_everything_but_the_ephemeral_nodes(tmp_path: Path) -> None:
    async def scenario() -> None:
        history = await write_history(tmp_path)
        zxid, before = history[max(history)]
        assert "/brokers/ids/0" in before
        tree = await opened(tmp_path)
        session = tree.session()
        after = image_of(tree.nodes)
        assert after.keys() == before.keys() - {"/brokers/ids/0"}
        untouched = after.keys() - {"/brokers/ids"}
        assert all(after[path] == before[path] for path in untouched)
        # The next registration has a higher epoch, and sequences continue.
        await session.create("/brokers/ids/0", ephemeral=True)
        stat = await session.exists("/brokers/ids/0")
        assert stat is not None
        assert stat.czxid == zxid + 2
        assert await session.create("/n_", sequential=True) == "/n_0000000004"
        await tree.close()

    run(scenario())


def test_the_journal_is_compacted_when_it_outgrows_the_tree(tmp_path: Path) -> None:
    async def scenario() -> None:
        journal = Journal(RealDisk(str(tmp_path)), compact_after=2000)
        tree = Tree(journal.open(), journal)
        session = tree.session()
        await session.create("/a", b"\xff0")
        await session.create("/e", ephemeral=True)
        sizes = []
        for number in range(200):
            await session.set("/a", b"%d" % number)
            sizes.append((tmp_path / FILE).stat().st_size)
        assert max(sizes) < 3000
        assert sum(now < before for before, now in pairwise(sizes)) >= 3
        assert image_of(reopened(tmp_path)) == image_of(tree.nodes)
        assert sorted(os.listdir(tmp_path)) == [FILE]
        await tree.close()

    run(scenario())


class FailingDisk(RealDisk):
    """A disk whose fsync fails from a given moment on."""

    failing = False

    def sync(self, path: str = "", /) -> None:
        if self.failing:
            raise DiskFault(self.log_dir, OSError(5, "Input/output error"))
        super().sync(path)


def test_after_a_failed_fsync_nothing_is_acknowledged_until_reopened(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = FailingDisk(str(tmp_path))
        tree = Tree.open(disk, InlineOffload())
        session = tree.session()
        await session.create("/before")
        disk.failing = True
        with pytest.raises(DiskFault):
            await session.create("/lost")
        disk.failing = False
        with pytest.raises(DiskFault):
            await session.create("/later")
        assert await session.children("/") == ["before"]
        await tree.close()
        # The line of the failed fsync may have survived or not; the one before has.
        assert "/before" in reopened(tmp_path)
        assert "/later" not in reopened(tmp_path)

    run(scenario())


def test_ten_thousand_nodes_are_restored_from_transactions_and_from_a_snapshot(
    tmp_path: Path,
) -> None:
    nodes, journal = Nodes(), Journal(RealDisk(str(tmp_path)))
    journal.open()
    for step in range(100):
        changes = [Created(f"/n{step * 100 + number}", b"{}" * 50, 0) for number in range(100)]
        nodes.apply(step + 1, changes)
        journal.write(step + 1, changes)
    assert image_of(reopened(tmp_path)) == image_of(nodes)
    journal.compact(nodes)
    assert image_of(reopened(tmp_path)) == image_of(nodes)


def test_only_its_owner_reads_the_journal_which_holds_credentials(tmp_path: Path) -> None:
    journal = Journal(RealDisk(str(tmp_path)))
    nodes = journal.open()
    assert (tmp_path / "znodes.journal").stat().st_mode & 0o777 == 0o600
    journal.compact(nodes)
    assert (tmp_path / "znodes.journal").stat().st_mode & 0o777 == 0o600


CHILD = """
import asyncio, sys
from barnabas.disk.disk import RealDisk
from barnabas.base.offload import InlineOffload
from barnabas.znodes.embedded.embedded_tree import Tree

async def main():
    session = Tree.open(RealDisk(sys.argv[1]), InlineOffload()).session()
    while True:
        print(await session.create("/n_", sequential=True), flush=True)

asyncio.run(main())
"""


def test_every_acknowledged_node_survives_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        acknowledged = [child.stdout.readline().strip() for _ in range(50)]
        child.send_signal(signal.SIGKILL)
        acknowledged += child.stdout.read().split()
    nodes = reopened(tmp_path)
    assert acknowledged[0] == "/n_0000000000"
    assert all(path in nodes for path in acknowledged)
