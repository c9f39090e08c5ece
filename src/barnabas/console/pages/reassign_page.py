"""Reassignments: a plan that is proposed and edited, its start, throttle and cancellation."""

from typing import Final

from barnabas.base.errors import ErrorCode
from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import alter_reassignments, list_reassignments
from barnabas.cli.exit_codes import CommandFailed
from barnabas.cli.reassign.reassign_plan import format_plan, moved, parse_plan, propose
from barnabas.cli.reassign.reassign_throttle import clear_throttles, set_throttles
from barnabas.cli.show import counted
from barnabas.client.retries import error_words
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer
from barnabas.console.web.page import Context, Page, live_page, parse_integer


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
    plan, why_not = {}, ""
    if current:
        try:
            plan = propose(current, racks)
        except CommandFailed as failure:
            why_not = str(failure)
    return {
        "why_not": why_not,
        "topics": page.argument("topics"),
        "brokers": page.argument("brokers"),
        "unknown": unknown,
        "rows": [(at, current[at], plan[at]) for at in plan],
        "copies": moved(current, plan) if plan else 0,
        "plan": format_plan(plan or current) if current else "",
    }


async def plan_reassign(page: Page, form: Form) -> Plan:
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

    changed = {at: replicas for at, replicas in plan.items() if list(replicas) != current[at]}
    if not changed:
        raise WrongInput("The plan changes nothing: these are the replicas now")

    async def carry_out() -> str:
        if throttle:
            await client.checked(set_throttles(client, current, changed, throttle))
        for each in await client.checked(alter_reassignments(client, changed)):
            if each.code is not ErrorCode.none:
                raise ClusterFailed(f"{each.partition}: {error_words(each.code, each.message)}")
        return f"{counted(len(changed), 'partition')} being reassigned."

    effects = [f"{at}: replicas {current[at]} → {list(changed[at])}." for at in changed]
    effects.append(f"{moved(current, changed)} replicas are copied.")
    if throttle:
        effects.append(f"Brokers copy at most {throttle:,} bytes a second, until it is removed.")
    return Plan("Reassign partitions", effects, "Start", carry_out, "cluster")


async def plan_cancel(page: Page, form: Form) -> Plan:
    """Cancels one reassignment, or all of them and their throttles."""
    client, wanted = page.cluster.client, form.get("partition", "")
    moving = await client.checked(list_reassignments(client))
    chosen = [at for at in moving if wanted in ("", str(at))]
    if wanted and not chosen:
        raise WrongInput(f"{wanted} is not being reassigned any more")
    is_all = len(chosen) == len(moving)

    async def carry_out() -> str:
        outcomes = await client.checked(alter_reassignments(client, dict.fromkeys(chosen)))
        if is_all:
            await client.checked(clear_throttles(client))
        for each in outcomes:
            if each.code not in (ErrorCode.none, ErrorCode.no_reassignment_in_progress):
                raise ClusterFailed(f"{each.partition}: {error_words(each.code, each.message)}")
        return f"{counted(len(chosen), 'reassignment')} cancelled."

    effects = [f"{at} keeps its former replicas." for at in chosen] or ["Nothing is moving."]
    if is_all:
        effects.append("All replication throttles of brokers and topics are removed.")
    return Plan("Cancel reassignments", effects, "Cancel them", carry_out, "cluster")


async def plan_throttle(page: Page, form: Form) -> Plan:
    """Bounds what brokers copy for the reassignments that go on."""
    client = page.cluster.client
    rate = integer(form, "throttle", 1, "The throttle", LONGEST)
    moving = await client.checked(list_reassignments(client))
    if not moving:
        raise WrongInput("Nothing is being reassigned any more")
    now = {at: [b for b in each.replicas if b not in each.adding] for at, each in moving.items()}
    then = {at: [b for b in each.replicas if b not in each.removing] for at, each in moving.items()}

    async def carry_out() -> str:
        await client.checked(set_throttles(client, now, then, rate))
        return f"Brokers copy at most {rate:,} bytes a second now."

    effects = [f"Brokers copy at most {rate:,} bytes a second, until it is removed."]
    return Plan("Change the throttle", effects, "Change", carry_out, "cluster")


async def plan_unthrottle(page: Page, _: Form) -> Plan:
    client = page.cluster.client

    async def carry_out() -> str:
        topics = await client.checked(clear_throttles(client))
        return f"Throttles were removed: {', '.join(topics) or 'no topic had any'}."

    effects = ["All replication throttles of brokers and topics are removed."]
    return Plan("Remove throttles", effects, "Remove", carry_out, "cluster")


ROUTES: Final = (
    live_page("/cluster/reassign", "reassign.html", gather_plan, 60.0),
    action("/cluster/reassign", "reassign", plan_reassign),
    action("/cluster/throttle", "change throttle", plan_throttle),
    action("/cluster/cancel", "cancel reassignments", plan_cancel),
    action("/cluster/unthrottle", "remove throttles", plan_unthrottle),
)
