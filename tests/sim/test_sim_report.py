"""The report on simulations: written where it belongs, and true of every safeguard."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.exit_codes import Misused
from barnabas.sim import seed_runner, sim_command
from barnabas.sim.faults import mutations
from barnabas.sim.faults.mutations import MUTATIONS, Finding
from barnabas.sim.seed_runner import Summary
from barnabas.sim.sim_report import MARK, check_writable, write

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_what_was_found_takes_the_place_of_what_was_found_before(tmp_path: Path) -> None:
    path = tmp_path / "reliability.md"
    path.write_text(f"# Reliability\n\nprose\n\n{MARK}\n\nold figures\n")
    check_writable(path)
    summary = Summary(2, 1_234, 7_200.0, 60.0, Counter({"broker killed": 3, "partition": 9}))
    found = Finding("sequence_check", 2, 2, ("duplicate",), ())
    write(path, range(1, 3), summary, [found, Finding("min_insync_check", 10, None, (), ())])
    above, _, below = path.read_text().partition(MARK)
    assert above == "# Reliability\n\nprose\n\n"
    assert "old figures" not in below
    for line in (
        "| seeds | 1..2 |",
        "| seeds in which a law was broken | 0 |",
        "| operations checked | 1,234 |",
        "| simulated hours per wall-clock minute | 2.00 |",
        "| partition | 9 |\n| broker killed | 3 |",
        "| `sequence_check` | a batch that a producer sends again is not written again"
        " | seed 2, after 2 of 10 | duplicate | every law is kept |",
        "| not found |",
    ):
        assert line in below


def test_a_report_is_not_written_over_anything_else(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# Something else\n")
    for path in (other, tmp_path / "absent.md"):
        with pytest.raises(Misused, match="--report"):
            check_writable(path)


def test_the_document_tells_of_every_safeguard_and_that_no_law_was_broken() -> None:
    _, mark, below = DOCUMENT.read_text().partition(MARK)
    assert mark
    assert "| seeds in which a law was broken | 0 |" in below
    for safeguard in MUTATIONS:
        (row,) = [line for line in below.splitlines() if line.startswith(f"| `{safeguard}` |")]
        assert "| seed " in row
        assert row.endswith("| every law is kept |")


def test_the_command_writes_it_when_the_search_is_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reliability.md"
    path.write_text(f"# Reliability\n\n{MARK}\n")
    findings = [Finding(name, 1, 1, ("lost write",), ()) for name in MUTATIONS]
    monkeypatch.setattr(seed_runner, "search", lambda seeds, **_: Summary(len(seeds)))
    monkeypatch.setattr(mutations, "find_all", lambda processes: findings)
    sim_command.sim(seeds="1..7", report=path)
    assert "| seeds tried | 7 |" in path.read_text()
    assert path.read_text().count("| lost write | every law is kept |") == len(MUTATIONS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seeds": "1..2", "without": "sequence_check"}, "--without shows one run"),
        ({"seed": 1, "report": Path("x")}, "--report tells of many"),
        ({"seed": 1, "without": "luck"}, "no such safeguard; epoch_truncation, isr_version_check"),
        ({"seeds": "1..2", "report": Path("absent.md")}, "give docs/reliability.md"),
    ],
)
def test_what_cannot_be_meant_is_explained(options: dict[str, Any], why: str) -> None:
    with pytest.raises(Misused, match=why):
        sim_command.sim(**options)
