"""`barnabas quotas`: list, set and remove client quotas."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from barnabas.cli.show import show_rows
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.cli.raw_client import RawClient

app = command_group(
    """List, set and remove client quotas.

    \b
    Examples:
      barnabas quotas set --user alice producer_byte_rate=1048576
      barnabas quotas set --default-user --client-id etl request_percentage=50
      barnabas quotas list
      barnabas quotas remove --user alice producer_byte_rate
    """
)

COLUMNS: Final = ("user", "client_id", "ip", "quota", "value")
DEFAULT: Final = "<default>"

User = Annotated[str | None, typer.Option("--user", metavar="USER", help="User name.")]
DefaultUser = Annotated[bool, typer.Option("--default-user", help="Users without their own.")]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="Client id.")]
DefaultClient = Annotated[
    bool, typer.Option("--default-client-id", help="Client ids without their own.")
]
Ip = Annotated[str | None, typer.Option("--ip", metavar="IP", help="Client address.")]
DefaultIp = Annotated[bool, typer.Option("--default-ip", help="Addresses without their own.")]


@app.command("list")
def list_quotas(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List client quotas.

    \b
    Examples:
      barnabas quotas list
      barnabas quotas list --json
    """
    from barnabas.cli.raw_client import ask_cluster

    async def show(client: "RawClient") -> None:
        show_rows(await _listed(client), COLUMNS, json=json, none="no quotas")

    ask_cluster(bootstrap, show)


@app.command("set")
def set_quotas(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA=VALUE...", help="Quotas to set.")],
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClient = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas of a user, a client id, both, or an address.

    \b
    Examples:
      barnabas quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152
      barnabas quotas set --default-client-id request_percentage=25
      barnabas quotas set --ip 10.0.0.7 connection_creation_rate=10
    """
    parts = _parts(user, default_user, client_id, default_client_id, ip, default_ip)
    changes = []
    for each in quotas:
        key, equals, text = each.partition("=")
        try:
            changes.append((key, float(text)))
        except ValueError:
            problem = "is no number" if equals else "has no value"
            raise Misused(f"{each} {problem}; write QUOTA=VALUE") from None
    _alter(bootstrap, parts, changes)


@app.command()
def remove(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA...", help="Quotas to remove.")],
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClient = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove quotas of a user, a client id, both, or an address.

    \b
    Examples:
      barnabas quotas remove --user alice producer_byte_rate
      barnabas quotas remove --default-user --default-client-id request_percentage
    """
    parts = _parts(user, default_user, client_id, default_client_id, ip, default_ip)
    _alter(bootstrap, parts, [(key, None) for key in quotas])


def _parts(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> list[tuple[str, str | None]]:
    """The entity that the options name. Raises Misused."""
    found: list[tuple[str, str | None]] = []
    for kind, name, is_default in (
        ("user", user, default_user),
        ("client-id", client_id, default_client_id),
        ("ip", ip, default_ip),
    ):
        if name is not None and is_default:
            raise Misused(f"--{kind} and --default-{kind} exclude each other")
        if name is not None or is_default:
            found.append((kind, name))
    if not found:
        raise Misused("name an entity: --user, --client-id or --ip, or one of their defaults")
    return found


def _alter(
    bootstrap: str, parts: list[tuple[str, str | None]], changes: list[tuple[str, Any]]
) -> None:
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.client.metadata import fields
    from barnabas.client.retries import error_words
    from barnabas.wire.apis import ApiKey

    entity = tuple(fields(entity_type=kind, entity_name=name) for kind, name in parts)
    ops = tuple(fields(key=key, value=value or 0.0, remove=value is None) for key, value in changes)
    request = fields(entries=(fields(entity=entity, ops=ops),), validate_only=False)

    async def alter(client: "RawClient") -> None:
        answer = await client.ask_controller(ApiKey.ALTER_CLIENT_QUOTAS, request)
        (entry,) = answer.entries
        if entry.error_code is not ErrorCode.none:
            raise CommandFailed(entry.error_message or error_words(entry.error_code))

    ask_cluster(bootstrap, alter)


async def _listed(client: "RawClient") -> list[dict[str, object]]:
    from barnabas.base.errors import ErrorCode
    from barnabas.client.metadata import fields
    from barnabas.client.retries import error_words
    from barnabas.wire.apis import ApiKey

    request = fields(components=(), strict=False)
    answer = await client.ask_controller(ApiKey.DESCRIBE_CLIENT_QUOTAS, request)
    if answer.error_code is not ErrorCode.none:
        raise CommandFailed(answer.error_message or error_words(answer.error_code))
    rows: list[dict[str, object]] = []
    for entry in answer.entries or ():
        names = {each.entity_type: each.entity_name or DEFAULT for each in entry.entity}
        for value in entry.values:
            number = int(value.value) if value.value == int(value.value) else value.value
            rows.append(
                {
                    "user": names.get("user"),
                    "client_id": names.get("client-id"),
                    "ip": names.get("ip"),
                    "quota": value.key,
                    "value": number,
                }
            )
    return rows
