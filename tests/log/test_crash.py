"""A log whose process is killed at any moment keeps what it promised, be the files harmed or not.

BARNABAS_CRASHES says how many crashes to try, for more than CI has time for.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from barnabas.base.ids import LeaderEpoch
from barnabas.log.log import Log
from barnabas.wire.records.batch import read_header
from tests.log.batches import NOW
from tests.log.crash_writer import next_batch, open_logs
from tests.log.crashed import (
    Promises,
    check_epochs,
    check_log,
    check_promises,
)
from tests.log.damage import damage
from tests.support.chaos import seed_of

CRASHES: Final = int(os.environ.get("BARNABAS_CRASHES", "100"))
LONGEST_LIFE_S: Final = 0.08
LIVES_OF_A_LOG: Final = 6
REPOSITORY: Final = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.timeout(120 + CRASHES * 2)

Kill = Callable[[int, Path, Path, float], None]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that can be: to a killed process all files are, and nobody waits for fsync.

    What a failure leaves goes to the test's own folder.
    """
    memory = Path("/dev/shm")
    with TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)
        shutil.copytree(folder, tmp_path, dirs_exist_ok=True)


@pytest.fixture(scope="module")
def kill_a_writer() -> Iterator[Kill]:
    """Let a writer work on a folder, and kill it after so many seconds."""
    command = [sys.executable, "-m", "tests.log.crash_writer"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=REPOSITORY) as warm:
        assert warm.stdin
        assert warm.stdout
        orders, answers = warm.stdin, warm.stdout

        def kill(seed: int, folder: Path, journal: Path, after_s: float) -> None:
            print(json.dumps([seed, str(folder), str(journal)]), file=orders, flush=True)
            process_id = int(answers.readline())
            time.sleep(after_s)
            os.kill(process_id, signal.SIGKILL)
            assert int(answers.readline()) == -signal.SIGKILL, "the writer ended by itself"

        yield kill


class Victim:
    """One log that is written to, crashes, is looked at and lives on, several times."""

    def __init__(self, folder: Path, kill: Kill, seed: int) -> None:
        self.folder = folder
        self.found = folder.with_name(f"{folder.name}-as-found")
        self.promises = Promises()
        self.source = random.Random(seed)
        self._kill = kill
        self._journal = folder.with_name(f"{folder.name}-journal")

    def crash(self) -> None:
        self._journal.unlink(missing_ok=True)
        seed, life_s = self.source.getrandbits(32), self.source.uniform(0, LONGEST_LIFE_S)
        self._kill(seed, self.folder, self._journal, life_s)
        self.promises.read(self._journal)

    def forget(self) -> None:
        for folder in (self.folder, self.found):
            shutil.rmtree(folder)
        self._journal.unlink(missing_ok=True)

    def check(self, least_end: int) -> None:
        """Open the log, look at all of it, append to it, and leave it, cleanly or not."""
        shutil.rmtree(self.found, ignore_errors=True)
        if self.folder.exists():
            shutil.copytree(self.folder, self.found)
        logs, log = open_logs(self.folder)
        try:
            everything = check_log(log, self.folder, self.source)
            check_promises(everything, self.promises, least_end)
            check_epochs(log, everything, self.promises)
            self.promises.become(everything, log)
            append_more(log, self.source)
            self.promises.become(check_log(log, self.folder, self.source), log)
            if self.source.random() < 0.2:
                logs.close({})
                self.promises.flushed = self.promises.end
        finally:
            logs.release()


def append_more(log: Log, source: random.Random) -> None:
    for _ in range(source.randrange(60)):
        batch = next_batch(log, source)
        header = read_header(batch)
        assert log.producers.check(header) is None
        end = log.log_end_offset
        epoch = LeaderEpoch(max(log.epochs.latest, 0))
        assert log.append(batch, header, epoch, NOW)[:2] == (end, end + header.record_count)


def crash_often(folder: Path, kill: Kill, *, harm: bool) -> int:
    """As many crashes as asked for; tells their number. One that fails tells its seed."""
    tried, seeds = 0, random.Random(seed_of("BARNABAS_CRASHES"))
    while tried < CRASHES // 2:
        seed = seeds.getrandbits(32)
        victim = Victim(folder / f"{seed:08x}", kill, seed)
        for _ in range(LIVES_OF_A_LOG):
            victim.crash()
            tried += 1
            harmed = damage(victim.folder, victim.promises, victim.source) if harm else []
            try:
                victim.check(victim.promises.flushed if harm else victim.promises.kept)
            except BaseException as error:
                error.add_note(f"crash {tried}, {harmed=}; see {victim.found.name}")
                raise
        victim.forget()
    return tried


@pytest.mark.parametrize("harm", [False, True], ids=["killed", "killed and harmed"])
def test_a_log_keeps_its_promises_through_crashes(
    folder: Path, kill_a_writer: Kill, harm: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed: all that was acknowledged is there. Harmed beyond the flushed: all that was flushed.

    In both cases nothing that follows damage is served, and indexes, epochs and producers agree.
    """
    tried = crash_often(folder, kill_a_writer, harm=harm)
    with capsys.disabled():
        print(f"\ncrashes tried: {tried}")
