"""The cluster: brokers with log directories and configs, reassignments as a board, elections."""

from typing import Any, Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import (
    BROKER,
    alter_reassignments,
    elect_leaders,
    list_reassignments,
)
from barnabas.cli.reassign.reassign_plan import format_plan, moved, parse_plan, propose
from barnabas.cli.reassign.reassign_progress import progress_of
from barnabas.cli.reassign.reassign_throttle import clear_throttles, set_throttles
from barnabas.client.metadata import fields
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import ClusterFailed, ConsoleClient
from barnabas.console.cluster.topic_index import read_partitions, read_placement
from barnabas.console.cluster.topics import read_configs
from barnabas.console.pages.overview_page import controller_state
from barnabas.console.pages.shutdown_action import pids_of
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer
from barnabas.console.web.page import Context, Page, live_page, parse_integer
from barnabas.wire.apis import ApiKey

_SHOWN: Final = 40
_NOT_NEEDED: Final = (ErrorCode.none, ErrorCode.election_not_needed)


async def gather_cluster(page: Page) -> Context:
    client = page.cluster.client
    view = await client.view()
    index = await page.cluster.index.get()
    placement = await page.state.offload(lambda: read_placement(index))
    moving, why_not = {}, ""
    try:
        moving = await client.checked(list_reassignments(client))
    except ClusterFailed as failure:  # the person may lack the right to see them
        why_not = str(failure)
    progress = None
    if moving:
        progress = await client.checked(progress_of(client, moving, moving))
    return {
        "view": view,
        "placement": placement,
        "dirs": await _log_dirs(client, view.ids),
        "moving": sorted(moving.items()),
        "why_not": why_not,
        "progress": progress,
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


async def gather_plan(page: Page) -> Context:
    """A proposal for a balanced assignment of chosen topics."""
    index = await page.cluster.index.get()
    view = await page.cluster.client.view()
    names = [name for name in page.argument("topics").replace(",", " ").split() if name]
    wanted = page.argument("brokers").replace(",", " ").split()
    chosen = [parse_integer(each) for each in wanted]
    brokers = [broker for broker in view.ids if broker in chosen] if wanted else view.ids
    unknown = [name for name in names if name not in index.topics]
    current = {
        TopicPartition(name, each.partition): list(each.replicas)
        for name in names
        if name in index.topics
        for each in read_partitions(index.topics[name])
    }
    racks = {each.id: each.rack for each in view.brokers if each.id in brokers}
    plan = await page.cluster.client.checked(_propose(current, racks)) if current else {}
    return {
        "topics": page.argument("topics"),
        "brokers": page.argument("brokers"),
        "unknown": unknown,
        "rows": [(at, current[at], plan[at]) for at in plan],
        "copies": moved(current, plan) if plan else 0,
        "plan": format_plan(plan) if plan else "",
    }


async def _propose(current: Any, racks: Any) -> Any:
    return propose(current, racks)


async def decide_reassign(page: Page, form: Form) -> Plan:
    client = page.cluster.client
    plan = parse_plan(form.get("plan", ""), "the plan")
    throttle = integer(form, "throttle", 0, "The throttle", LONGEST) if form.get("throttle") else 0
    index = await page.cluster.index.get()
    current = {
        TopicPartition(name, each.partition): list(each.replicas)
        for name in sorted({at.topic for at in plan})
        if name in index.topics
        for each in read_partitions(index.topics[name])
    }
    if missing := [str(at) for at in plan if at not in current]:
        raise WrongInput(f"There is no partition {', '.join(missing)}")

    async def carry_out() -> str:
        if throttle:
            await client.checked(set_throttles(client, current, plan, throttle))
        for each in await client.checked(alter_reassignments(client, plan)):
            if each.code is not ErrorCode.none:
                raise ClusterFailed(f"{each.partition}: {error_words(each.code, each.message)}")
        return f"{len(plan)} partitions are being reassigned."

    effects = [f"{at}: replicas {current[at]} → {list(plan[at])}." for at in plan]
    effects.append(f"{moved(current, plan)} replicas are copied.")
    if throttle:
        effects.append(f"Brokers copy at most {throttle:,} bytes a second, until it is removed.")
    return Plan("Reassign partitions", effects, "Start", carry_out, "cluster")


async def decide_cancel(page: Page, _: Form) -> Plan:
    client = page.cluster.client
    moving = await client.checked(list_reassignments(client))

    async def carry_out() -> str:
        outcomes = await client.checked(alter_reassignments(client, dict.fromkeys(moving)))
        await client.checked(clear_throttles(client))
        for each in outcomes:
            if each.code not in (ErrorCode.none, ErrorCode.no_reassignment_in_progress):
                raise ClusterFailed(f"{each.partition}: {error_words(each.code, each.message)}")
        return f"{len(moving)} reassignments were cancelled."

    effects = [f"{at} keeps its former replicas." for at in moving] or ["Nothing is moving."]
    effects.append("All replication throttles of brokers and topics are removed.")
    return Plan("Cancel reassignments", effects, "Cancel them", carry_out, "cluster")


async def decide_unthrottle(page: Page, _: Form) -> Plan:
    client = page.cluster.client

    async def carry_out() -> str:
        topics = await client.checked(clear_throttles(client))
        return f"Throttles were removed: {', '.join(topics) or 'no topic had any'}."

    effects = ["All replication throttles of brokers and topics are removed."]
    return Plan("Remove throttles", effects, "Remove", carry_out, "cluster")


async def decide_elect(page: Page, _: Form) -> Plan:
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
    live_page("/cluster/reassign", "reassign.html", gather_plan, 60.0),
    action("/cluster/reassign", "reassign", decide_reassign),
    action("/cluster/cancel", "cancel reassignments", decide_cancel),
    action("/cluster/unthrottle", "remove throttles", decide_unthrottle),
    action("/cluster/elect", "elect leaders", decide_elect),
)
