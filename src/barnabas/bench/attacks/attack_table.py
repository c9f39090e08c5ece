"""All attacks in the order of the table, performed on each system in turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from barnabas.bench.attacks import (
    batch_attacks,
    connection_attacks,
    coordinator_attacks,
    old_format_attacks,
    outage_rows,
    reader_attacks,
    size_attacks,
)
from barnabas.bench.attacks.attack import Attack
from barnabas.bench.attacks.attack_run import Attacked, AttackEffort, Systems, attacked
from barnabas.bench.bench_plan import Say
from barnabas.bench.compare.compare_run import FAILURES
from barnabas.bench.compare.signals import signalled_once

ATTACKS: Final[Sequence[Attack]] = (
    *batch_attacks.ATTACKS,
    *size_attacks.ATTACKS,
    *coordinator_attacks.ATTACKS,
    *connection_attacks.ATTACKS,
    *reader_attacks.ATTACKS,
    *old_format_attacks.ATTACKS,
    *outage_rows.ATTACKS,
)


@dataclass(slots=True)
class LimitsRow:
    """One attack, and what it did to each system; a failure to attack is a line of text."""

    key: str
    name: str
    found: dict[str, Attacked | str] = field(default_factory=dict)


@dataclass(slots=True)
class LimitsTable:
    rows: list[LimitsRow] = field(default_factory=list)
    interrupted: bool = False

    @property
    def failures(self) -> list[str]:
        return [
            f"{row.name}, {system}: {found}"
            for row in self.rows
            for system, found in row.found.items()
            if isinstance(found, str)
        ]


def chosen(words: Sequence[str]) -> list[Attack]:
    """The attacks with one of the words in key or name; all without words.

    Raises  ValueError for a word that no attack has
    """
    for word in words:
        if not any(_has(attack, word) for attack in ATTACKS):
            raise ValueError(f"no attack has {word!r} in its name")
    return [each for each in ATTACKS if not words or any(_has(each, word) for word in words)]


def _has(attack: Attack, word: str) -> bool:
    names = (attack.key, attack.title(quick=False), attack.title(quick=True))
    return any(word in name.lower() for name in names)


def run(
    systems: Sequence[tuple[str, Systems]],
    attacks: Sequence[Attack],
    effort: AttackEffort,
    folder: Path,
    say: Say,
    on_row: Callable[[LimitsRow], None],
) -> LimitsTable:
    """Perform the attacks; a row is handed over when all systems have suffered it.

    A signal ends the run: the rows so far are returned, and nothing is left running.
    """
    table = LimitsTable()
    try:
        with signalled_once():
            for number, attack in enumerate(attacks, 1):
                row = LimitsRow(attack.key, attack.title(quick=effort.quick))
                for name, system in systems:
                    say(f"{number} of {len(attacks)}: {row.name}: {name}")
                    row.found[name] = _one(system, attack, effort, folder, say)
                table.rows.append(row)
                on_row(row)
    except (KeyboardInterrupt, SystemError):
        # The Kafka client makes a SystemError of a signal that hits one of its calls.
        table.interrupted = True
    return table


def _one(
    system: Systems, attack: Attack, effort: AttackEffort, folder: Path, say: Say
) -> Attacked | str:
    try:
        return attacked(system(attack.properties), attack, effort, folder, say)
    except FAILURES as problem:
        return " ".join(str(problem).split()) or type(problem).__name__
