"""`barnabas bench compare --clients`: the given clients, their cases and results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.bench.compare.client_cases import Data, client_cases, prepare
from barnabas.bench.compare.client_driver import SPINS_AFTER_S, Driver
from barnabas.bench.compare.client_registry import find, named
from barnabas.bench.compare.client_show import show, write
from barnabas.bench.compare.compare_cases import FULL_BYTES, Case, Effort, warm_up
from barnabas.bench.compare.compare_sites import Site
from barnabas.cli.exit_codes import CommandFailed

if TYPE_CHECKING:
    from rich.console import Console

    from barnabas.bench.compare.compare_run import Comparison
    from barnabas.bench.compare.compare_show import Facts

REPEAT: Final = 6
LATENCY_S: Final = 2.0
IN_TURNS_S: Final = 2.0  # of each system in a round, with the start of the clients
# So that every row has the six pairs that an interval needs, after three rounds.
LEAST_TURNS: Final = 2
WARMING_S: Final = 2.0
QUICK_BYTES: Final = FULL_BYTES // 8


class ClientRun:
    """A comparison with several clients."""

    def __init__(self, names: str) -> None:
        """Raises ValueError for an unknown client."""
        self._data = Data()
        self._names = named(names)
        # All possible cases, until the available clients are known.
        protocols, latencies = frozenset({"classic", "consumer"}), ("p50", "p99", "mean")
        self._drivers = [
            Driver(name, (), protocols=protocols, latencies=latencies) for name in self._names
        ]

    def cases(self) -> list[Case]:
        return client_cases(self._drivers, self._data)

    def effort(self, quick: bool, repeat: int | None, minutes: float | None) -> Effort:
        if quick:
            return Effort(repeat or 1, QUICK_BYTES, 1.0, 0, 0.0, minutes)
        return Effort(repeat or REPEAT, FULL_BYTES, LATENCY_S, 0, IN_TURNS_S, minutes, LEAST_TURNS)

    def find(self, console: "Console") -> dict[str, str]:
        """Fetch and build the clients, report those skipped, and return the facts of both.

        Raises CommandFailed if none is available.
        """
        with console.status("fetching and building the clients, unless cached"):
            self._drivers, missing = find(self._names)
        left_out = [f"{name} ({reason})" for name, reason in missing.items()]
        for each in left_out:
            console.print(f"skipped: {each}", markup=False, highlight=False, soft_wrap=True)
        if not self._drivers:
            raise CommandFailed("none of these clients is available")
        facts = {
            "clients": ", ".join(f"{each.name} {each.version}".strip() for each in self._drivers)
        }
        return facts | ({"left out": ", ".join(left_out)} if left_out else {})

    def is_whole(self) -> bool:
        """True if all clients are included."""
        return self._names == named("all")

    def prepare(self, site: Site, effort: Effort) -> None:
        """Warm up a cluster and write the topics that the clients read."""
        warm_up(site, replace(effort, load_s=min(WARMING_S, effort.load_s)))
        prepare(site, effort, self._data)

    def clear(self) -> None:
        self._data.delete()

    def show(self, console: "Console", found: "Comparison") -> None:
        show(console, found)
        for what, which in self._measured_again().items():
            console.print(f"{what}: {which}", highlight=False)

    def write(self, found: "Comparison", facts: "Facts", folder: Path) -> list[Path]:
        return write(found, {**facts, **self._measured_again()}, folder)

    def _measured_again(self) -> dict[str, str]:
        stuck = [
            f"{each.name} {len(each.spun)} times (CPU: {_in_seconds(each.spun)})"
            for each in self._drivers
            if each.spun
        ]
        what = f"measured again, as the client did not end within {SPINS_AFTER_S:.0f} s"
        return {what: ", ".join(stuck)} if stuck else {}


def _in_seconds(times: Sequence[float]) -> str:
    return ", ".join(f"{each:.0f} s" for each in times)
