"""`groups describe --follow`: refreshed descriptions with the trend of the lag."""

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.base.clock import Stopwatch, machine_stopwatch
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.groups.groups_describe import (
    Group,
    headline,
    members_table,
    offsets_table,
    show_groups,
    totals,
)
from barnabas.cli.show import bordered, show_json

if TYPE_CHECKING:
    from rich.console import RenderableType

# The window of the trend: a shorter one jumps with every commit, a longer one reacts late.
_WINDOW_NS: Final = 10 * 10**9
_NS_PER_S: Final = 10**9

Look = Callable[[], list[Group]]
Show = Callable[[list[Group], str], None]


class Trend:
    """The rate of change of each lag over the last seconds."""

    def __init__(self, stopwatch: Stopwatch = machine_stopwatch) -> None:
        self._stopwatch = stopwatch
        self._seen: dict[tuple[object, ...], deque[tuple[int, int]]] = {}

    def add(self, group: Group) -> None:
        """Set `lag_per_s` of the group and its partitions; None until the second refresh."""
        now_ns = self._stopwatch()
        rows = group["partitions"]
        # A lag that is unknown for a moment must not look as if it fell.
        unknown = any(row["lag"] is None and row["current_offset"] is not None for row in rows)
        lag = None if unknown else group["lag"]
        group["lag_per_s"] = self._rate((group["group"],), lag, now_ns)
        for row in rows:
            key = (group["group"], row["topic"], row["partition"])
            row["lag_per_s"] = self._rate(key, row["lag"], now_ns)

    def _rate(self, key: tuple[object, ...], lag: int | None, now_ns: int) -> float | None:
        seen = self._seen.setdefault(key, deque())
        if lag is None:
            seen.clear()
            return None
        seen.append((now_ns, lag))
        while len(seen) > 2 and now_ns - seen[0][0] > _WINDOW_NS:
            seen.popleft()
        then_ns, before = seen[0]
        if then_ns == now_ns:
            return None
        return round((lag - before) * _NS_PER_S / (now_ns - then_ns), 1)


def follow(look: Look, wait: Callable[[], None], *, members: bool, json: bool) -> None:
    """Show the result of `look` until Ctrl-C; a later failure is shown and `look` retried.

    Raises  CommandFailed if the first `look` fails
    """
    trend = Trend()
    described = look()
    with _shown(members=members, json=json) as show:
        trouble = ""
        while True:
            if not trouble:
                for group in described:
                    trend.add(group)
            show(described, trouble)
            wait()
            try:
                described, trouble = look(), ""
            except CommandFailed as failure:
                trouble = str(failure)


@contextmanager
def _shown(*, members: bool, json: bool) -> Iterator[Show]:
    """Refresh in place on a terminal; print one description after the other elsewhere."""
    if json or not sys.stdout.isatty():
        yield lambda described, trouble: _show_next(described, trouble, members=members, json=json)
        return
    from rich.live import Live

    with Live(auto_refresh=False, screen=False) as live:
        yield lambda described, trouble: live.update(
            _picture(described, trouble, members=members), refresh=True
        )


def _show_next(described: list[Group], trouble: str, *, members: bool, json: bool) -> None:
    if trouble:
        print(f"barnabas: {trouble}", file=sys.stderr, flush=True)
    elif json:
        show_json(described)
        sys.stdout.flush()
    else:
        show_groups(described, members=members)


def _picture(described: Sequence[Group], trouble: str, *, members: bool) -> "RenderableType":
    from rich.console import Group as Stack
    from rich.text import Text

    parts: list[RenderableType] = []
    for group in described:
        parts.append(Text(headline(group)))
        columns, rows = members_table(group) if members else offsets_table(group)
        parts.append(bordered(columns, rows) if rows else Text(""))
        if not members:
            parts.append(Text(totals(group)))
    if trouble:
        parts.append(Text(trouble, style="red"))
    return Stack(*parts)
