"""Groups whose members are processes: what each owned, processed and committed, and when."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

from tests.support.waiting import suspend, until

IN_TIME_S = 60.0


class Owned(NamedTuple):
    """The time in which a member owned a partition."""

    partition: int
    since: float
    until: float
    member: str


class Member:
    """One process; `events` has its events in order."""

    def __init__(self, name: str, given: Mapping[str, Any]) -> None:
        self.name = name
        self.events: list[dict[str, Any]] = []
        # The latest time at which all its ownership ended, whatever the member believes.
        self.over_at: float | None = None
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.group_member", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))

    def events_of(self, what: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["what"] == what]

    @property
    def owns(self) -> set[int]:
        """The partitions that it owns now, as far as it knows."""
        now = time.monotonic()
        return {each.partition for each in self.owned(now) if each.until == now}

    def order(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def stop(self) -> None:
        """Leave the group and end."""
        self.order("stop")
        assert self._process.wait(IN_TIME_S) == 0, self.events[-5:]
        self._ended()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()
        self._process.wait(IN_TIME_S)
        if self.over_at is None:
            self.over_at = time.monotonic()
        self._ended()

    def pause(self, at_least_s: float) -> None:
        """Send SIGSTOP: others may own its partitions once its session has expired."""
        suspend(self._process.pid)
        self.over_at = time.monotonic() + at_least_s

    def resume(self) -> None:
        """Send SIGCONT: it continues until it learns that its session has expired."""
        os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(IN_TIME_S)
        self._ended()

    def _ended(self) -> None:
        self._reader.join(IN_TIME_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def owned(self, now: float) -> list[Owned]:
        """All its ownerships, up to `now` for current ones."""
        since: dict[int, float] = {}
        found: list[Owned] = []
        end = now if self.over_at is None else min(now, self.over_at)
        for event in list(self.events):
            if event["t"] >= end:
                break
            if event["what"] == "assigned":
                for partition in event["partitions"]:
                    since.setdefault(partition, event["t"])
            elif event["what"] in ("revoked", "lost", "leaving"):
                gone = [each for each in event.get("partitions", list(since)) if each in since]
                found += [Owned(each, since.pop(each), event["t"], self.name) for each in gone]
        return [*found, *(Owned(each, start, end, self.name) for each, start in since.items())]


class Group:
    """The members of one group that reads one topic; closing it ends all."""

    def __init__(self, bootstrap: str, group: str, topic: str, **given: Any) -> None:
        self.group = group
        self._given = {"bootstrap": bootstrap, "group": group, "topic": topic, **given}
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            member.close()

    def join(self, client: str = "confluent-kafka", **given: Any) -> Member:
        """Add a member; it is starting when this returns."""
        name = f"{self.group}/{len(self.members)} ({client})"
        self.members.append(Member(name, {**self._given, "client": client, **given}))
        return self.members[-1]

    # -- waiting ---------------------------------------------------------------

    def wait(self, condition: Callable[[], object], what: str) -> None:
        until(condition, lambda: f"{what}: {self.story()}", IN_TIME_S)

    def wait_shared(self, partitions: int, members: Iterable[Member]) -> None:
        """Wait until exactly these members own all partitions, each at least one."""
        members = list(members)
        everything = list(range(partitions))

        def shared() -> bool:
            parts = [member.owns for member in members]
            return all(parts) and sorted(each for part in parts for each in part) == everything

        self.wait(shared, f"{len(members)} members to share {partitions} partitions")

    def wait_processed(self, ends: Mapping[int, int]) -> None:
        self.wait(lambda: not self.missing(ends), "all records to be processed")

    # -- checks ----------------------------------------------------------------

    def processed(self) -> Counter[tuple[int, int]]:
        return Counter(
            (event["partition"], event["offset"])
            for member in self.members
            for event in member.events_of("record")
        )

    def missing(self, ends: Mapping[int, int]) -> list[tuple[int, int]]:
        done = self.processed()
        return [
            (partition, offset)
            for partition, end in ends.items()
            for offset in range(end)
            if (partition, offset) not in done
        ]

    def acknowledged(self) -> dict[int, int]:
        """The highest acknowledged commit of each partition."""
        ends: dict[int, int] = {}
        for member in self.members:
            for event in member.events_of("committed"):
                ends[event["partition"]] = max(ends.get(event["partition"], 0), event["offset"])
        return ends

    def check_nothing_was_owned_twice(self) -> None:
        """Assert that no partition had two owners at one time."""
        now = time.monotonic()
        owned = sorted(each for member in self.members for each in member.owned(now))
        for one, other in pairwise(owned):
            if one.partition == other.partition:
                assert one.until <= other.since, f"{one} and {other}: {self.story()}"

    def story(self) -> str:
        """The events without the records, for a failed test."""
        lines = [
            (event["t"], f"{member.name}: {event['what']} {event.get('partitions', '')}")
            for member in self.members
            for event in member.events
            if event["what"] not in ("record", "committed")
        ]
        return "\n".join(["", *(f"{t:.3f} {line}" for t, line in sorted(lines))])
