"""`barnabas acls`: list, add, remove and explain access control lists."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes, confirm
from barnabas.cli.show import counted, show_json, show_rows
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.cli.raw_client import RawClient
    from barnabas.security.acls import Acl, Operation, PatternType, ResourceType

app = command_group(
    """List, add, remove and explain access control lists (ACLs).

    \b
    Examples:
      barnabas acls add --allow User:alice --operation read --topic orders
      barnabas acls add --deny User:bob --operation all --topic pay --prefixed
      barnabas acls list --topic orders
      barnabas acls explain --principal User:alice --operation write --topic orders
    """
)

COLUMNS: Final = ("permission", "principal", "host", "operation", "type", "pattern", "name")

Topic = Annotated[str | None, typer.Option("--topic", metavar="TOPIC", help="Topic name, or *.")]
Group = Annotated[str | None, typer.Option("--group", metavar="GROUP", help="Group id, or *.")]
TransactionalId = Annotated[
    str | None, typer.Option("--transactional-id", metavar="ID", help="Transactional id, or *.")
]
Token = Annotated[
    str | None, typer.Option("--delegation-token", metavar="ID", help="Delegation token, or *.")
]
User = Annotated[
    str | None, typer.Option("--user-principal", metavar="USER", help="User, whose tokens count.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is a prefix.")]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", metavar="OPERATION", help="read, write, describe, all, ..."),
]
Host = Annotated[str, typer.Option("--host", metavar="IP", help="Client address, or *.")]


@app.command("list")
def list_acls(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user: User = None,
    cluster: Cluster = False,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="TYPE:NAME", help="Only of this one.")
    ] = None,
    matching: Annotated[
        bool, typer.Option("--matching", help="Also prefixes and * that match the name.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List ACLs.

    \b
    Examples:
      barnabas acls list
      barnabas acls list --topic orders --matching
      barnabas acls list --principal User:alice --json
    """
    from barnabas.cli.access.acl_requests import describe_acls
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.security.acls import AclFilter, PatternType

    kind, name = _resource(topic, group, transactional_id, delegation_token, user, cluster, True)
    pattern = PatternType.MATCH if matching else PatternType.ANY
    wanted = AclFilter(kind, name, pattern, principal)

    async def show(client: "RawClient") -> None:
        _show(await describe_acls(client, wanted), json=json)

    ask_cluster(bootstrap, show)


@app.command()
def add(
    allow: Annotated[
        list[str] | None, typer.Option("--allow", metavar="TYPE:NAME", help="Allow a principal.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option("--deny", metavar="TYPE:NAME", help="Deny a principal.")
    ] = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user: User = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    host: Host = "*",
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Add ACLs.

    \b
    Examples:
      barnabas acls add --allow User:alice --operation read --operation write --topic orders
      barnabas acls add --allow User:* --operation describe --cluster
      barnabas acls add --deny User:bob --operation all --topic pay --prefixed --host 10.0.0.7
    """
    from barnabas.cli.access.acl_requests import create_acls
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.security.acls import Acl, Entry, Permission, ResourcePattern

    kind, name = _resource(topic, group, transactional_id, delegation_token, user, cluster, False)
    resource = ResourcePattern(kind, name or "", _pattern(prefixed))
    principals = [(each, Permission.ALLOW) for each in allow or ()]
    principals += [(each, Permission.DENY) for each in deny or ()]
    if not principals:
        raise Misused("name a principal with --allow or --deny")
    acls = [
        Acl(resource, Entry(each, host, wanted, permission))
        for each, permission in principals
        for wanted in _operations(operation)
    ]
    _check(acls)

    async def create(client: "RawClient") -> None:
        await create_acls(client, acls)
        _show(acls, json=json)

    ask_cluster(bootstrap, create)


@app.command()
def remove(
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="TYPE:NAME", help="Only of this one.")
    ] = None,
    operation: Operations = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user: User = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    yes: Yes = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove the ACLs that match.

    \b
    Examples:
      barnabas acls remove --principal User:alice --operation write --topic orders
      barnabas acls remove --topic orders --yes
    """
    from barnabas.cli.access.acl_requests import delete_acls, describe_acls
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.security.acls import AclFilter
    from barnabas.security.acls import Operation as Op

    kind, name = _resource(topic, group, transactional_id, delegation_token, user, cluster, False)
    operations = _operations(operation) if operation else [Op.ANY]
    filters = [
        AclFilter(kind, name, _pattern(prefixed), principal, operation=each) for each in operations
    ]

    async def delete(client: "RawClient") -> None:
        found = [acl for each in filters for acl in await describe_acls(client, each)]
        if not found:
            raise CommandFailed("no ACL matches")
        if not yes:
            confirm(f"Remove {counted(len(found), 'ACL')}?", "no ACL removed")
        _show(await delete_acls(client, filters), json=json)

    ask_cluster(bootstrap, delete)


@app.command()
def explain(
    principal: Annotated[
        str, typer.Option("--principal", metavar="TYPE:NAME", help="Principal, as User:alice.")
    ],
    operation: Annotated[
        str, typer.Option("--operation", metavar="OPERATION", help="read, write, describe, ...")
    ],
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: Token = None,
    user: User = None,
    cluster: Cluster = False,
    host: Annotated[
        str, typer.Option("--host", metavar="IP", help="Address of the client.")
    ] = "127.0.0.1",
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Say whether a principal may do something, and which rule decides.

    \b
    Examples:
      barnabas acls explain --principal User:alice --operation read --topic orders
      barnabas acls explain --principal User:bob --operation alter --cluster --host 10.0.0.7

    The exit code is 0 if it is allowed, and 1 if not.
    """
    from barnabas.cli.access.acl_requests import describe_acls, describe_rules
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.security.acl_cache import AclCache
    from barnabas.security.acl_decision import Question, decide
    from barnabas.security.acls import AclFilter, InvalidAcl, check_principal

    try:
        check_principal(principal)
    except InvalidAcl as e:
        raise Misused(f"--principal: {e}") from None
    kind, name = _resource(topic, group, transactional_id, delegation_token, user, cluster, False)
    (wanted,) = _operations([operation])
    question = Question(principal, host, wanted, kind, name or "")

    async def show(client: "RawClient") -> bool:
        cache = AclCache()
        for acl in await describe_acls(client, AclFilter(kind)):
            cache.replace(acl.resource, cache.entries(acl.resource) | {acl.entry})
        decision = decide(question, cache, await describe_rules(client))
        rule = None if decision.acl is None else str(decision.acl)
        answer = "allowed" if decision.allowed else "denied"
        if json:
            show_json({"decision": answer, "reason": decision.reason, "acl": rule})
        else:
            print(f"{answer}: {decision.reason}" + (f"\n  {rule}" if rule else ""))
        return decision.allowed

    if not ask_cluster(bootstrap, show):
        raise typer.Exit(1)


def _resource(
    topic: str | None,
    group: str | None,
    transactional_id: str | None,
    token: str | None,
    user: str | None,
    cluster: bool,
    is_optional: bool,
) -> "tuple[ResourceType, str | None]":
    """The one resource that the options name. Raises Misused."""
    from barnabas.security.acls import CLUSTER_NAME, ResourceType

    given: list[tuple[Any, str]] = [
        (kind, name)
        for kind, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.GROUP, group),
            (ResourceType.TRANSACTIONAL_ID, transactional_id),
            (ResourceType.DELEGATION_TOKEN, token),
            (ResourceType.USER, user),
            (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(given) == 1:
        return given[0]
    if not given and is_optional:
        return ResourceType.ANY, None
    raise Misused(
        "name one resource: --topic, --group, --cluster, --transactional-id, "
        "--delegation-token or --user-principal"
    )


def _pattern(prefixed: bool) -> "PatternType":
    from barnabas.security.acls import PatternType

    return PatternType.PREFIXED if prefixed else PatternType.LITERAL


def _operations(names: Sequence[str] | None) -> "list[Operation]":
    from barnabas.security.acls import Operation

    found = []
    for name in names or ("all",):
        plain = name.replace("-", "").replace("_", "").lower()
        known = [each for each in Operation if each.text.lower() == plain and each > 1]
        if not known:
            raise Misused(f"{name} is no operation; try read, write, create, describe or all")
        found += known
    return found


def _check(acls: "Sequence[Acl]") -> None:
    from barnabas.security.acls import InvalidAcl, check_acl

    for acl in acls:
        try:
            check_acl(acl)
        except InvalidAcl as e:
            raise Misused(str(e)) from None


def _show(acls: "Sequence[Acl]", *, json: bool) -> None:
    rows = [
        {
            "permission": acl.entry.permission.name,
            "principal": acl.entry.principal,
            "host": acl.entry.host,
            "operation": acl.entry.operation.name,
            "type": acl.resource.type.name,
            "pattern": acl.resource.pattern_type.name,
            "name": acl.resource.name,
        }
        for acl in acls
    ]
    show_rows(rows, COLUMNS, json=json, none="no ACLs")
