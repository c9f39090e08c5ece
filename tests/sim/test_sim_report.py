"""The report in docs/reliability.md."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.exit_codes import Misused
from barnabas.sim import mutations, seed_runner, sim_command
from barnabas.sim.mutations import MUTATIONS, MutationResult
from barnabas.sim.seed_runner import Summary
from barnabas.sim.sim_report import MARK, check_writable, write

DOCUMENT = Path(__file__).parents[2] / "docs" / "reliability.md"


def test_new_results_replace_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "reliability.md"
    path.write_text(f"# Reliability\n\nprose\n\n{MARK}\n\nold figures\n")
    check_writable(path)
    summary = Summary(2, 1_234, 7_200.0, 60.0, Counter({"broker killed": 3, "partition": 9}))
    found = MutationResult("sequence_check", 2, 2, ("duplicate",), ())
    write(path, range(1, 3), summary, [found, MutationResult("min_insync_check", 10, None, (), ())])
    above, _, below = path.read_text().partition(MARK)
    assert above == "# Reliability\n\nprose\n\n"
    assert "old figures" not in below
    for line in (
        "| seeds | 1..2 |",
        "| seeds in which a law was broken | 0 |",
        "| operations checked | 1,234 |",
        "| simulated hours per wall-clock minute | 2.00 |",
        "| partition | 9 |\n| broker killed | 3 |",
        "| `sequence_check` | a batch that a producer retries is not appended twice"
        " | seed 2, after 2 of 10 | duplicate | no law broken |",
        "| not found |",
    ):
        assert line in below


def test_a_file_without_the_mark_is_not_overwritten(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# Something else\n")
    for path in (other, tmp_path / "absent.md"):
        with pytest.raises(Misused, match="--report"):
            check_writable(path)


def test_the_document_lists_every_safeguard_and_no_broken_law() -> None:
    _, mark, below = DOCUMENT.read_text().partition(MARK)
    assert mark
    assert "| seeds in which a law was broken | 0 |" in below
    for safeguard in MUTATIONS:
        (row,) = [line for line in below.splitlines() if line.startswith(f"| `{safeguard}` |")]
        assert "| seed " in row
        assert row.endswith("| no law broken |")


def test_the_command_writes_the_report_after_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reliability.md"
    path.write_text(f"# Reliability\n\n{MARK}\n")
    findings = [MutationResult(name, 1, 1, ("lost write",), ()) for name in MUTATIONS]
    monkeypatch.setattr(seed_runner, "search", lambda seeds, **_: Summary(len(seeds)))
    monkeypatch.setattr(mutations, "find_all", lambda processes: findings)
    sim_command.sim(seeds="1..7", report=path)
    assert "| seeds run | 7 |" in path.read_text()
    assert path.read_text().count("| lost write | no law broken |") == len(MUTATIONS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"seeds": "1..2", "without": "sequence_check"}, "--without needs one run"),
        ({"seed": 1, "report": Path("x")}, "--report needs many runs"),
        ({"seed": 1, "without": "luck"}, "expected one of epoch_truncation, isr_version_check"),
        ({"seeds": "1..2", "report": Path("absent.md")}, "use docs/reliability.md"),
    ],
)
def test_a_wrong_combination_of_options_is_rejected(options: dict[str, Any], why: str) -> None:
    with pytest.raises(Misused, match=why):
        sim_command.sim(**options)
