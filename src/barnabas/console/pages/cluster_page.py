"""The cluster: brokers with log directories and configs, reassignments as a board, elections."""

from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.cli.admin.admin_requests import (
    BROKER,
    elect_leaders,
    list_reassignments,
)
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import ClusterFailed, ConsoleClient
from barnabas.console.cluster.reassignments import read_board
from barnabas.console.cluster.topics import read_configs
from barnabas.console.pages.overview_page import controller_state
from barnabas.console.pages.shutdown_action import pids_of
from barnabas.console.web.actions import Form, Plan, action
from barnabas.console.web.page import Context, Page, live_page, parse_integer
from barnabas.wire.apis import ApiKey

_SHOWN: Final = 40
_NOT_NEEDED: Final = (ErrorCode.none, ErrorCode.election_not_needed)


async def gather_cluster(page: Page) -> Context:
    client = page.cluster.client
    view = await client.view()
    index = await page.cluster.index.get()
    placement = await page.cluster.index.placement(index)
    moving, why_not = {}, ""
    try:
        moving = await client.checked(list_reassignments(client))
    except ClusterFailed as failure:  # the person may lack the right to see them
        why_not = str(failure)
    board = await read_board(client, index, moving) if moving else None
    return {
        "view": view,
        "placement": placement,
        "gone": placement.gone(view.ids),
        "dirs": await _log_dirs(client, view.ids),
        "board": board,
        "why_not": why_not,
        "controller": await controller_state(client, index.partitions),
        "stoppable": pids_of(page, view.ids),
        "audit": _audit(page),
    }


def _audit(page: Page) -> list[dict[str, object]]:
    """The last changes, the newest first; with sign-in the person's own."""
    is_own = page.state.options.sasl_mechanism is not None
    found = [e for e in page.state.audit.entries if not is_own or e["person"] == page.person]
    return found[-20:][::-1]


async def _log_dirs(client: ConsoleClient, brokers: list[int]) -> list[dict[str, Any]]:
    request = fields(topics=())  # no partitions: totals only
    answers, failed = await client.ask_all(
        dict.fromkeys(brokers, request), ApiKey.DESCRIBE_LOG_DIRS
    )
    found: list[dict[str, Any]] = []
    for broker in brokers:
        if broker in failed:
            found.append({"broker": broker, "path": failed[broker], "error": "unreachable"})
        for each in answers[broker].results if broker in answers else ():
            error = None if each.error_code is ErrorCode.none else each.error_code.name
            total, usable = each.total_bytes, each.usable_bytes
            found.append(
                {
                    "broker": broker,
                    "path": each.log_dir,
                    "error": error,
                    "total": total if total >= 0 else None,
                    "used": total - usable if total >= 0 else None,
                }
            )
    return found


async def gather_broker(page: Page) -> Context:
    broker = parse_integer(page.request.path_params["broker"])
    client = page.cluster.client
    if broker is None or broker not in (await client.view()).ids:
        raise ClusterFailed(
            f"there is no broker {page.request.path_params['broker'][:_SHOWN]} in the cluster"
        )
    configs = await read_configs(client, BROKER, str(broker))
    shows_all = page.argument("all") == "yes"
    return {
        "broker": broker,
        "shows_all": shows_all,
        "configs": [each for each in configs if shows_all or each.is_changed],
        "count": len(configs),
    }


async def plan_elect(page: Page, _: Form) -> Plan:
    client = page.cluster.client

    async def carry_out() -> str:
        outcomes = await client.checked(elect_leaders(client, None, unclean=False))
        wrong = [each for each in outcomes if each.code not in _NOT_NEEDED]
        if wrong:
            first = wrong[0]
            raise ClusterFailed(f"{first.partition}: {error_words(first.code, first.message)}")
        done = sum(each.code is ErrorCode.none for each in outcomes)
        return f"{done} partitions are led by their preferred replica again."

    effects = ["Each partition whose preferred replica is in sync is led by it. No data moves."]
    return Plan("Elect preferred leaders", effects, "Elect", carry_out, "cluster")


ROUTES: Final = (
    live_page("/cluster", "cluster.html", gather_cluster),
    live_page("/cluster/brokers/{broker}", "broker.html", gather_broker, 30.0),
    action("/cluster/elect", "elect leaders", plan_elect),
)
