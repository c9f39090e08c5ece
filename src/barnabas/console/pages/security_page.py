"""Security: users, ACLs with search, "why may X do Y?", quotas."""

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Final

from barnabas.client.metadata import fields
from barnabas.console.cluster.acls import (
    OPERATIONS,
    PATTERNS,
    PERMISSIONS,
    RESOURCES,
    ListedAcl,
    decide_access,
    read_acls,
)
from barnabas.console.cluster.console_client import ClusterFailed, check
from barnabas.console.cluster.extra_apis import (
    ALTER_QUOTAS,
    ALTER_USERS,
    CREATE_ACLS,
    DELETE_ACLS,
    DESCRIBE_ACLS,
    DESCRIBE_QUOTAS,
    DESCRIBE_USERS,
    ask_any,
)
from barnabas.console.web.actions import LONGEST, Form, Plan, WrongInput, action, integer
from barnabas.console.web.page import Context, Page, live_page

_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ITERATIONS: Final = 8192
_QUOTAS: Final = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
)


async def gather_security(page: Page) -> Context:
    client = page.cluster.client
    acls, why_no_acls = await _part(page, DESCRIBE_ACLS.key, lambda: read_acls(client))
    users, why_no_users = await _part(page, DESCRIBE_USERS.key, lambda: _users(page))
    quotas, why_no_quotas = await _part(page, DESCRIBE_QUOTAS.key, lambda: _quotas(page))
    wanted = page.argument("q").lower()
    question = {name: page.argument(name) for name in ("who", "operation", "resource", "name")}
    verdict = None
    if question["who"] and question["name"]:
        who = question["who"] if ":" in question["who"] else f"User:{question['who']}"
        verdict = decide_access(
            acls, who, question["operation"], question["resource"], question["name"]
        )
    return {
        "q": page.argument("q"),
        "acls": [acl for acl in acls if wanted in str(acl).lower()],
        "users": users,
        "quotas": quotas,
        "missing": {"acls": why_no_acls, "users": why_no_users, "quotas": why_no_quotas},
        "question": question,
        "verdict": verdict,
        "resources": list(RESOURCES.values()),
        "operations": list(OPERATIONS.values()),
        "patterns": list(PATTERNS.values()),
        "quota_names": _QUOTAS,
        "mechanisms": list(_MECHANISMS.values()),
    }


async def _part(
    page: Page, api: int, ask: Callable[[], Awaitable[list[Any]]]
) -> tuple[list[Any], str]:
    """A list of the page, or a sentence why it is not there."""
    if not await page.cluster.client.offers(api):
        return [], "This cluster does not have the API for it."
    try:
        return await ask(), ""
    except ClusterFailed as failure:
        return [], str(failure)


async def _users(page: Page) -> list[dict[str, Any]]:
    answer = await ask_any(page.cluster.client, DESCRIBE_USERS, fields(users=None))
    check(answer, "the users")
    return [
        {
            "name": each.user,
            "credentials": [
                (_MECHANISMS.get(info.mechanism, "unknown"), info.iterations)
                for info in each.credential_infos
            ],
        }
        for each in answer.results
    ]


async def _quotas(page: Page) -> list[dict[str, Any]]:
    answer = await ask_any(
        page.cluster.client, DESCRIBE_QUOTAS, fields(components=(), strict=False)
    )
    check(answer, "the quotas")
    return [
        {
            "entity": {each.entity_type: each.entity_name for each in entry.entity},
            "values": {each.key: each.value for each in entry.values},
        }
        for entry in answer.entries or ()
    ]


def _acl_of(form: Form) -> ListedAcl:
    principal = form.get("principal", "").strip()
    name = form.get("name", "").strip()
    if not principal or not name:
        raise WrongInput("An ACL needs a principal and the name of a resource")
    return ListedAcl(
        form.get("resource", "Topic"),
        name,
        form.get("pattern", "literal"),
        principal if ":" in principal else f"User:{principal}",
        form.get("permission", "Allow"),
        form.get("operation", "Read"),
        form.get("host", "").strip() or "*",
    )


def _number(names: dict[int, str], name: str) -> int:
    for number, each in names.items():
        if each == name:
            return number
    raise WrongInput(f"“{name}” is not one of {', '.join(names.values())}")


async def plan_create_acl(page: Page, form: Form) -> Plan:
    acl = _acl_of(form)
    creation = fields(
        resource_type=_number(RESOURCES, acl.resource),
        resource_name=acl.name,
        resource_pattern_type=_number(PATTERNS, acl.pattern),
        principal=acl.principal,
        host=acl.host,
        operation=_number(OPERATIONS, acl.operation),
        permission_type=_number(PERMISSIONS, acl.permission),
    )

    async def carry_out() -> str:
        request = fields(creations=(creation,))
        answer = await ask_any(page.cluster.client, CREATE_ACLS, request)
        check(answer.results[0], "the ACL")
        return f"Added: {acl}."

    return Plan("Add an ACL", [f"{acl}."], "Add", carry_out, "security")


async def plan_delete_acl(page: Page, form: Form) -> Plan:
    acl = _acl_of(form)
    wanted = fields(
        resource_type_filter=_number(RESOURCES, acl.resource),
        resource_name_filter=acl.name,
        pattern_type_filter=_number(PATTERNS, acl.pattern),
        principal_filter=acl.principal,
        host_filter=acl.host,
        operation=_number(OPERATIONS, acl.operation),
        permission_type=_number(PERMISSIONS, acl.permission),
    )

    async def carry_out() -> str:
        answer = await ask_any(page.cluster.client, DELETE_ACLS, fields(filters=(wanted,)))
        check(answer.filter_results[0], "the ACL")
        return f"Removed: {acl}."

    effects = [f"This no longer applies: {acl}."]
    return Plan("Remove an ACL", effects, "Remove", carry_out, "security", is_dangerous=True)


async def plan_user(page: Page, form: Form) -> Plan:
    """Sets the password of a user, or deletes its credentials."""
    name, is_deletion = form.get("name", "").strip(), form.get("do") == "delete"
    mechanism = _number(_MECHANISMS, form.get("mechanism", "SCRAM-SHA-256"))
    password = form.get("password", "")
    if not name or (not password and not is_deletion):
        raise WrongInput("A user needs a name and a password")

    async def carry_out() -> str:
        upsertions, deletions = (), (fields(name=name, mechanism=mechanism),)
        if not is_deletion:
            salt = page.state.random.uuid().bytes + page.state.random.uuid().bytes
            digest = "sha256" if mechanism == 1 else "sha512"
            salted = await page.state.offload(
                lambda: hashlib.pbkdf2_hmac(digest, password.encode(), salt, _ITERATIONS)
            )
            credential = fields(
                name=name,
                mechanism=mechanism,
                iterations=_ITERATIONS,
                salt=salt,
                salted_password=salted,
            )
            upsertions, deletions = (credential,), ()  # type: ignore[assignment]  # - either
        request = fields(deletions=deletions, upsertions=upsertions)
        answer = await ask_any(page.cluster.client, ALTER_USERS, request)
        check(answer.results[0], f"user {name}")
        return f"User {name} was {'removed' if is_deletion else 'set'}."

    what = _MECHANISMS[mechanism]
    effects = [
        f"The {what} credentials of {name} are removed; it can no longer sign in with them."
        if is_deletion
        else f"User {name} signs in with {what} and the new password from now on."
    ]
    verb = "Remove" if is_deletion else "Set"
    title = f"{verb} user {name}"
    return Plan(title, effects, verb, carry_out, "security", is_dangerous=is_deletion)


async def plan_quota(page: Page, form: Form) -> Plan:
    user, client_id = form.get("user", "").strip(), form.get("client", "").strip()
    key = form.get("key", _QUOTAS[0])
    value = integer(form, "value", 0, "The quota", LONGEST)
    if not user and not client_id:
        raise WrongInput("A quota needs a user, a client id, or both")
    entity = [
        fields(entity_type=kind, entity_name=None if name == "<default>" else name)
        for kind, name in (("user", user), ("client-id", client_id))
        if name
    ]

    async def carry_out() -> str:
        change = fields(key=key, value=float(value), remove=value == 0)
        entry = fields(entity=tuple(entity), ops=(change,))
        request = fields(entries=(entry,), validate_only=False)
        answer = await ask_any(page.cluster.client, ALTER_QUOTAS, request)
        check(answer.entries[0], "the quota")
        return "The quota was removed." if value == 0 else "The quota was set."

    whom = " and ".join(
        filter(None, [user and f"user {user}", client_id and f"client {client_id}"])
    )
    what = "is removed" if value == 0 else f"becomes {value:,}"
    return Plan("Change a quota", [f"{key} of {whom} {what}."], "Change", carry_out, "security")


ROUTES: Final = (
    live_page("/security", "security.html", gather_security, 10.0),
    action("/security/acls", "add ACL", plan_create_acl),
    action("/security/acls/delete", "remove ACL", plan_delete_acl),
    action("/security/users", "change user", plan_user),
    action("/security/quotas", "change quota", plan_quota),
)
