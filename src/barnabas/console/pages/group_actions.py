"""Changes to groups: groups deleted. The reset of offsets has a module of its own."""

from typing import Final

from barnabas.client.metadata import fields
from barnabas.console.cluster.console_client import ClusterFailed, check
from barnabas.console.cluster.groups import describe_group
from barnabas.console.web.actions import Form, Plan, action
from barnabas.console.web.page import Page
from barnabas.wire.apis import ApiKey


async def plan_delete_group(page: Page, form: Form) -> Plan:
    name = form.get("name", "")
    group = await describe_group(page.cluster.client, await page.cluster.index.get(), name)
    if group.members:
        raise ClusterFailed(f"group {name} has {len(group.members)} members; stop them first")

    async def carry_out() -> str:
        request = fields(groups_names=(name,))
        answer = await page.cluster.client.ask_group(name, ApiKey.DELETE_GROUPS, request)
        check(answer.results[0], f"group {name}")
        return f"Group {name} was deleted."

    effects = [f"Group {name} and its {len(group.partitions)} committed offsets are deleted."]
    return Plan(f"Delete group {name}", effects, "Delete", carry_out, "groups", is_dangerous=True)


ROUTES: Final = (action("/group/delete", "delete group", plan_delete_group),)
