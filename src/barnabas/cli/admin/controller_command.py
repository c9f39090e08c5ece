"""`barnabas controller`: the active controller, its epoch, event queue and last events."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap
from barnabas.cli.show import counted, show_json, show_table, show_time

if TYPE_CHECKING:
    from barnabas.cli.raw_client import RawClient

State = Mapping[str, Any]
_LOOK_EVERY_S: Final = 0.5


def controller(
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Print new events until Ctrl-C.")
    ] = False,
    json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the raw state as JSON; with --follow one line per change."
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the active controller, its epoch, its event queue and its last events.

    \b
    Examples:
      barnabas controller
      barnabas controller --follow
      barnabas controller --json | jq .counts.offline_partitions
    """
    from barnabas.cli.raw_client import ask_cluster

    ask_cluster(bootstrap, lambda client: _show_all(client, follow=follow, json=json))


async def _show_all(client: "RawClient", *, follow: bool, json: bool) -> None:
    import asyncio

    from barnabas.cli.admin.admin_requests import describe_controller

    state = await describe_controller(client)
    if json:
        show_json(state)
    else:
        show_state(state)
    while follow:
        await asyncio.sleep(_LOOK_EVERY_S)
        before, state = state, await describe_controller(client)
        if json:
            if before["events"] != state["events"]:
                show_json(state)
        else:
            for line in news(before, state):
                print(line, flush=True)


def show_state(state: State) -> None:
    """Print the controller's state as text and tables."""
    queue, counts = state["queue"], state["counts"]
    since = show_time(state["elected_ms"])
    print(f"controller broker {state['broker']}, epoch {state['epoch']}, elected {since}")
    waits = f", oldest {queue['oldest_ms']} ms" if queue["length"] else ""
    print(f"queue      {counted(queue['length'], 'event')}{waits}")
    print(f"cluster    {', '.join(count_words(counts))}")
    show_table(("broker", "epoch", "state", "to send", "in flight"), broker_rows(state["brokers"]))
    if state["events"]:
        show_table(("time", "event", "ms", "outcome"), [event_row(e) for e in state["events"]])


def count_words(counts: Mapping[str, int]) -> list[str]:
    """`3 brokers, 2 topics, ...`; counts that should be zero appear only if they are not."""
    words = [counted(counts[f"{noun}s"], noun) for noun in ("broker", "topic", "partition")]
    unusual = {
        "offline_partitions": "offline",
        "preferred_imbalance": "not led by the preferred replica",
        "reassigning": "being reassigned",
        "deleting": "being deleted",
    }
    return words + [f"{counts[key]} {what}" for key, what in unusual.items() if counts[key]]


def broker_rows(brokers: Mapping[str, State]) -> list[list[object]]:
    return [
        [
            int(number),
            broker["epoch"],
            broker["state"],
            broker["channel"]["queue"],
            broker["channel"]["in_flight"],
        ]
        for number, broker in sorted(brokers.items(), key=lambda item: int(item[0]))
    ]


def event_row(event: State) -> list[object]:
    took = f"{event['took_ms']:.1f}"
    return [show_time(event["time_ms"]), event["event"], took, event["outcome"]]


def news(before: State, after: State) -> list[str]:
    """One line per event since `before`, and one if the controller has changed."""
    who = (after["broker"], after["epoch"])
    if who == (before["broker"], before["epoch"]):
        fresh, lines = _since(before["events"], after["events"]), []
    else:
        fresh, lines = after["events"], [f"new controller: broker {who[0]}, epoch {who[1]}"]
    for event in fresh:
        time, name, took, outcome = event_row(event)
        lines.append(f"{time}  {name}  {took} ms  {outcome}")
    return lines


def _since(before: Sequence[State], after: Sequence[State]) -> Sequence[State]:
    """The events after the last known one; both lists hold only the most recent events."""
    if not before:
        return after
    for position in range(len(after), 0, -1):
        if after[position - 1] == before[-1]:
            return after[position:]
    return after
