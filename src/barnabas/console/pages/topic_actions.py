"""Changes to topics: create, configure, add partitions, delete records, delete."""

from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.base.ids import TopicPartition
from barnabas.cli.admin.admin_requests import TOPIC, alter_configs, config_change
from barnabas.client.metadata import fields
from barnabas.console.cluster.console_client import ClusterFailed, check
from barnabas.console.cluster.topic_index import read_partitions
from barnabas.console.pages.topic_page import topic_row
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer, pairs
from barnabas.console.web.page import Page, sign_in_first
from barnabas.wire.apis import ApiKey

_TIMEOUT_MS: Final = 25_000


async def show_new(request: Request) -> Response:
    page = Page(request)
    if not page.is_known:
        return sign_in_first(page)
    return page.render("topic_new.html", {})


async def plan_create(page: Page, form: Form) -> Plan:
    name = form.get("name", "").strip()
    if not name:
        raise WrongInput("A topic needs a name")
    partitions = integer(form, "partitions", 1, "The number of partitions")
    factor = integer(form, "replication_factor", -1, "The replication factor", 2**15 - 1)
    configs = dict(pairs(form.get("configs", "")))
    replicas = f"{factor} replicas each" if factor > 0 else "the brokers' replication factor"

    async def carry_out() -> str:
        topic = fields(
            name=name,
            num_partitions=partitions,
            replication_factor=factor if factor > 0 else -1,
            assignments=(),
            configs=tuple(fields(name=key, value=value) for key, value in configs.items()),
        )
        answer = await page.cluster.client.checked(
            page.cluster.client.ask_controller(
                ApiKey.CREATE_TOPICS,
                fields(topics=(topic,), timeout=_span(), validate_only=False),
            )
        )
        check(answer.topics[0], f"topic {name}")
        return f"Topic {name} was created."

    effects = [f"Topic {name} is created with {partitions} partitions and {replicas}."]
    effects += [f"{key} is set to {value}." for key, value in configs.items()]
    return Plan(f"Create topic {name}", effects, "Create", carry_out, f"topics/{name}")


def _span() -> object:
    from datetime import timedelta

    return timedelta(milliseconds=_TIMEOUT_MS)


async def plan_configure(page: Page, form: Form) -> Plan:
    name = page.request.path_params["topic"]
    key, value = form.get("key", ""), form.get("value", "").strip()
    is_reset = form.get("do") == "reset"

    async def carry_out() -> str:
        client = page.cluster.client
        broker = (await client.view()).ids[0]
        change = config_change(TOPIC, name, {key: None if is_reset else value})
        await client.checked(alter_configs(client, broker, [change]))
        return f"{key} of {name} {'has its default again' if is_reset else f'is {value} now'}."

    what = f"{key} is removed from topic {name}: the brokers' value or the default applies."
    effects = [what if is_reset else f"{key} of topic {name} becomes {value}."]
    title = f"{'Reset' if is_reset else 'Set'} {key}"
    return Plan(title, effects, "Reset" if is_reset else "Set", carry_out, f"topics/{name}/configs")


async def plan_add_partitions(page: Page, form: Form) -> Plan:
    name = page.request.path_params["topic"]
    row = await topic_row(page, name)
    total = integer(form, "total", row.partitions + 1, "The new number of partitions")

    async def carry_out() -> str:
        client = page.cluster.client
        topic = fields(name=name, count=total, assignments=None)
        request = fields(topics=(topic,), timeout=_span(), validate_only=False)
        answer = await client.checked(client.ask_controller(ApiKey.CREATE_PARTITIONS, request))
        check(answer.results[0], f"topic {name}")
        return f"Topic {name} has {total} partitions now."

    effects = [
        f"Topic {name} gets {total - row.partitions} more partitions: {total} in all.",
        "Keys map to other partitions from then on; messages that are there stay where they are.",
        "Partitions cannot be taken away again.",
    ]
    return Plan(f"Add partitions to {name}", effects, "Add", carry_out, f"topics/{name}")


async def plan_delete(page: Page, form: Form) -> Plan:
    name = page.request.path_params["topic"]
    row = await topic_row(page, name)
    if form.get("again", "").strip() != name:
        raise WrongInput(f"Type {name} to delete it; “{form.get('again', '')}” is another name")
    groups = (await page.cluster.lags.whole()).of_topic(name)

    async def carry_out() -> str:
        client = page.cluster.client
        request = fields(
            topics=(fields(name=name, topic_id=None),), topic_names=(name,), timeout=_span()
        )
        answer = await client.checked(client.ask_controller(ApiKey.DELETE_TOPICS, request))
        check(answer.responses[0], f"topic {name}")
        return f"Topic {name} was deleted."

    effects = [
        f"Topic {name} and its {row.partitions} partitions are deleted, with all messages.",
        "This cannot be undone.",
    ]
    if groups:
        names = ", ".join(group for group, _ in groups)
        effects.append(f"These groups lose their offsets in it: {names}.")
    return Plan(f"Delete topic {name}", effects, "Delete", carry_out, "topics", is_dangerous=True)


async def plan_delete_records(page: Page, form: Form) -> Plan:
    name = page.request.path_params["topic"]
    row = await topic_row(page, name)
    chosen = form.get("partition", "all")
    partitions = [each for each in read_partitions(row) if chosen in ("all", str(each.partition))]
    before = integer(form, "before", -1, "The offset", LONGEST)
    leaders = {TopicPartition(name, each.partition): each.leader for each in partitions}
    starts = await page.cluster.client.offsets(leaders, leaders, -2)
    ends = await page.cluster.client.offsets(leaders, leaders, -1)
    if absent := [str(at) for at in leaders if at not in ends]:
        raise ClusterFailed(f"The leader of {', '.join(absent)} does not answer")
    # Messages produced from now on stay, even if the person chose all of a partition.
    until = {at: end if before < 0 else min(before, end) for at, end in ends.items()}
    effects = []
    for at, to in until.items():
        lost = max(0, to - starts.get(at, 0))
        effects.append(f"{at}: {lost:,} messages before offset {to:,} are deleted.")

    async def carry_out() -> str:
        requests = {
            leader: fields(
                timeout=_span(),
                topics=(
                    fields(
                        name=name,
                        partitions=tuple(
                            fields(partition_index=at.partition, offset=to)
                            for at, to in until.items()
                            if leaders[at] == leader
                        ),
                    ),
                ),
            )
            for leader in sorted(set(leaders.values()))
        }
        answers, failed = await page.cluster.client.ask_all(requests, ApiKey.DELETE_RECORDS)
        for answer in answers.values():
            for each in answer.topics[0].partitions:
                check(each, f"{name}-{each.partition_index}")
        if failed:
            raise ClusterFailed("; ".join(failed.values()))
        return f"Records of {name} were deleted."

    effects.append("This cannot be undone.")
    title = f"Delete records of {name}"
    return Plan(title, effects, "Delete records", carry_out, f"topics/{name}", is_dangerous=True)


ROUTES: Final = (
    Route("/topics-new", show_new, methods=["GET"]),
    action("/topics-new", "create topic", plan_create),
    action("/topics/{topic}/configs", "configure topic", plan_configure),
    action("/topics/{topic}/partitions", "add partitions", plan_add_partitions),
    action("/topics/{topic}/records", "delete records", plan_delete_records),
    action("/topics/{topic}/delete", "delete topic", plan_delete),
)
