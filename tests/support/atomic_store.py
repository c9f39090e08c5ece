"""A store of a consumer's results and positions: one transaction changes both."""

import sqlite3
from collections import Counter
from pathlib import Path


class AtomicStore:
    """A database file shared by processes."""

    def __init__(self, path: Path | str) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None)
        self._database.execute("create table if not exists results (partition int, offset int)")
        self._database.execute(
            "create table if not exists positions (partition int primary key, next int)"
        )

    def position(self, partition: int) -> int:
        found = self._database.execute(
            "select next from positions where partition = ?", (partition,)
        ).fetchone()
        return int(found[0]) if found else 0

    def process(self, partition: int, offset: int) -> bool:
        """Store the result of a record and advance the position, unless another process did."""
        self._database.execute("begin immediate")
        is_next = self.position(partition) == offset
        if is_next:
            self._database.execute("insert into results values (?, ?)", (partition, offset))
            self._database.execute(
                "insert or replace into positions values (?, ?)", (partition, offset + 1)
            )
        self._database.execute("commit")
        return is_next

    def results(self) -> Counter[tuple[int, int]]:
        rows = self._database.execute("select partition, offset from results").fetchall()
        return Counter((partition, offset) for partition, offset in rows)

    def close(self) -> None:
        self._database.close()
