"""The laws: docs/laws.md and the code name the same ones, and each of them bites."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from barnabas.base.errors import LawBroken
from barnabas.base.ids import LeaderEpoch, Offset
from barnabas.base.laws import law
from barnabas.base.randomness import Random
from barnabas.disk.disk import RealDisk
from barnabas.log.logs import Logs
from barnabas.replication.follower.follower_replica import FollowerReplica
from barnabas.server.fetching.cached_partitions import CachedPartition
from barnabas.server.fetching.fetch_responder import packed_answer
from barnabas.server.requests.replies import Pending
from barnabas.wire.fetch.fetch_codec import FetchPartition
from barnabas.wire.records.batch import read_header
from tests.log.batches import CONFIG, NOW, PARTITION, append, batch_of, fill, open_partition
from tests.replication.following import FOLLOWER
from tests.replication.leading import leadership, sole_leader

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "barnabas"
PROMISE = re.compile(r"^\| ([A-Z]+-\d+) \| ([^|]+) \| `([^|]+)` \|$", re.MULTILINE)
COMPILED_CALL = re.compile(r'\blaw\(\s*[^"]+"([A-Z]+-\d+) ([^"]+)"')
ROW = re.compile(r"\| ([A-Z]+-\d+) \| (.+?) \| (.+?) \| (.+) \|")


class Asserted(NamedTuple):
    """One call of `law`."""

    law_id: str
    sentence: str
    file: str


@cache
def asserted() -> list[Asserted]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and _is_law(node.func):
                name = ast.literal_eval(node.args[1])
                law_id, _, sentence = name.partition(" ")
                found.append(Asserted(law_id, sentence, path.relative_to(SOURCE).as_posix()))
    for path in sorted(SOURCE.rglob("*.pyx")):
        where = path.relative_to(SOURCE).as_posix()
        calls = COMPILED_CALL.findall(path.read_text())
        found += [Asserted(law_id, sentence, where) for law_id, sentence in calls]
    return found


def sources() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*") if path.suffix in (".py", ".pyx", ".pxd"))


def _is_law(called: ast.expr) -> bool:
    return isinstance(called, ast.Name) and called.id == "law"


def table() -> list[tuple[str, ...]]:
    return [match.groups() for match in ROW.finditer((ROOT / "docs" / "laws.md").read_text())]


def promises() -> dict[str, str]:
    """The file that watches each promise, by its id."""
    found = PROMISE.findall((ROOT / "docs" / "laws.md").read_text())
    return {law_id: where for law_id, _, where in found}


def test_the_table_has_each_law_once_with_the_sentence_of_the_code() -> None:
    rows = [(law_id, sentence) for law_id, sentence, *_ in table()]
    assert len({law_id for law_id, _ in rows}) == len(rows), "an id is listed twice"
    assert sorted(rows) == sorted({(one.law_id, one.sentence) for one in asserted()})


def test_an_id_has_one_sentence_wherever_it_is_asserted() -> None:
    sentences: dict[str, str] = {}
    for one in asserted():
        assert re.fullmatch(r"[A-Z]+-[1-9]\d*", one.law_id), one
        assert sentences.setdefault(one.law_id, one.sentence) == one.sentence, one


def test_the_table_says_in_which_files_a_law_is_asserted() -> None:
    for law_id, _, where, _ in table():
        files = {one.file for one in asserted() if one.law_id == law_id}
        assert set(re.findall(r"`(.+?)`", where)) == files, law_id


def test_a_test_breaks_each_law() -> None:
    for law_id, _, _, checked in table():
        tests = [ROOT / "docs" / link for link in re.findall(r"\]\((.+?)\)", checked)]
        breaks = f'pytest.raises(LawBroken, match="{law_id}")'
        assert any(breaks in path.read_text() for path in tests), law_id


def test_only_laws_of_the_table_are_named_in_the_code() -> None:
    known = [*(row[0] for row in table()), *promises()]
    prefixes = "|".join({law_id.partition("-")[0]: None for law_id in known})
    for path in sources():
        for named in re.findall(rf"\b(?:{prefixes})-\d+\b", path.read_text()):
            assert named in known, f"{path.relative_to(ROOT)} names {named}"


def test_the_checkers_of_the_simulation_watch_each_promise() -> None:
    watched = {
        law_id: path.relative_to(SOURCE).as_posix()
        for path in sorted((SOURCE / "sim").rglob("*.py"))
        for law_id in re.findall(r"Watches ([A-Z]+-\d+)", path.read_text())
    }
    assert watched == promises()
    assert {"ACK-1", "READ-1", "LEAD-1", "CTRL-1"} <= set(watched)
    assert not set(watched) & {row[0] for row in table()}, "a promise is no law"


def test_a_law_in_compiled_code_is_found() -> None:
    assert COMPILED_CALL.findall('law(a > b, "X-1 it holds", n=3)') == [("X-1", "it holds")]


# -- laws that no other suite breaks: each needs a caller that is wrong -------


def test_a_broken_law_reports_its_facts() -> None:
    with pytest.raises(LawBroken, match=r"^X-1 all is well: n=3, why='so'$"):
        law(1 > 2, "X-1 all is well", n=3, why="so")
    law(2 > 1, "X-1 all is well")


def test_a_batch_whose_offsets_have_gaps_is_not_given_any(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    header = read_header(batch_of(3))._replace(record_count=2)
    with pytest.raises(LawBroken, match="LOG-1"):
        log.append(batch_of(3), header, LeaderEpoch(0), NOW)
    assert log.log_end_offset == 0


def test_an_epoch_that_was_passed_cannot_begin_again(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, epoch=5)
    with pytest.raises(LawBroken, match="LOG-2"):
        log._begin_epoch(LeaderEpoch(4), 1)


def test_a_segment_in_the_middle_of_a_log_cannot_be_deleted(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    fill(log, 100)
    assert len(log.segments) > 3
    before = log.segments
    with pytest.raises(LawBroken, match="LOG-3"):
        log.delete_segments(log.segments[1:2], NOW)
    assert log.segments == before


class StoppedClock:
    def now_ms(self) -> int:
        return NOW


def test_a_second_log_for_a_partition_is_not_made(tmp_path: Path) -> None:
    logs = Logs([RealDisk(str(tmp_path))], clock=StoppedClock(), random=Random(1))
    logs.create(PARTITION, None, CONFIG)
    with pytest.raises(LawBroken, match="LOG-4"):
        logs.create(PARTITION, None, CONFIG)


def test_a_future_log_that_lacks_records_replaces_nothing(tmp_path: Path) -> None:
    disks = [RealDisk(str(tmp_path / name)) for name in ("one", "two")]
    logs = Logs(disks, clock=StoppedClock(), random=Random(1))
    for disk in disks:
        disk.make_dir("")
    current = logs.create(PARTITION, None, CONFIG)
    logs.create_future(PARTITION, str(tmp_path / "two"))
    append(current, batch_of(3))
    with pytest.raises(LawBroken, match="LOG-8"):
        logs.promote_future(PARTITION)


def test_the_high_watermark_of_a_leader_cannot_be_taken_back(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3))
    leader = sole_leader(log)
    with pytest.raises(LawBroken, match="REP-2"):
        leader._set_high_watermark(log.log_start_offset)
    assert leader.high_watermark == 3


def test_the_high_watermark_of_a_follower_cannot_leave_its_log(tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log, batch_of(3))
    follower = FollowerReplica(FOLLOWER, leadership(PARTITION), log, 0)
    with pytest.raises(LawBroken, match="REP-4"):
        follower._set_high_watermark(Offset(4))
    assert follower.high_watermark == 0


def test_a_second_answer_to_a_request_is_not_taken() -> None:
    answers: list[object] = []
    pending = Pending()
    pending.deliver_to(answers.append)
    pending.answer(b"first")
    with pytest.raises(LawBroken, match="SRV-1"):
        pending.answer(b"second")
    assert answers == [b"first"]


def test_a_partition_that_rests_has_its_answer_ready() -> None:
    wanted = CachedPartition("orders", FetchPartition(0, 0, 1))
    wanted.packed = b"answer"
    assert packed_answer(wanted) == b"answer"
    wanted.packed = b""
    with pytest.raises(LawBroken, match="SRV-2"):
        packed_answer(wanted)
