"""`barnabas tokens`: delegation tokens."""

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json
from barnabas.cli.show import show_json, show_rows, show_time
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.wire.apis import ApiKey

app = command_group(
    """Create, renew, expire and list delegation tokens.

    A client logs in with SCRAM: the token's id is its user, the HMAC its password, and its JAAS
    string says tokenauth="true".

    \b
    Examples:
      barnabas tokens create --renewer User:job
      barnabas tokens renew HMAC
      barnabas tokens list --owner User:alice
    """
)

COLUMNS: Final = ("token_id", "owner", "requester", "renewers", "issued", "expires", "max")
Secret = Annotated[str, typer.Argument(metavar="HMAC", help="The token's HMAC, in base64.")]


@app.command()
def create(
    owner: Annotated[
        str | None,
        typer.Option("--owner", metavar="TYPE:NAME", help="Of another owner than yourself."),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="TYPE:NAME", help="May renew and expire it; repeatable."),
    ] = None,
    max_lifetime_ms: Annotated[
        int, typer.Option("--max-lifetime-ms", metavar="MS", help="-1: as long as brokers allow.")
    ] = -1,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a token, and print its id and HMAC.

    \b
    Examples:
      barnabas tokens create
      barnabas tokens create --owner User:alice --renewer User:job --max-lifetime-ms 3600000
      barnabas tokens create --json | jq -r .hmac
    """
    from barnabas.client.metadata import fields
    from barnabas.wire.apis import ApiKey

    owner_type, owner_name = _principal("--owner", owner) if owner else (None, None)
    response = _ask(
        bootstrap,
        ApiKey.CREATE_DELEGATION_TOKEN,
        fields(
            owner_principal_type=owner_type,
            owner_principal_name=owner_name,
            renewers=_principals("--renewer", renewer or []),
            max_lifetime_ms=max_lifetime_ms,
        ),
    )
    row = {
        "token_id": response.token_id,
        "hmac": base64.b64encode(response.hmac).decode(),
        "owner": f"{response.principal_type}:{response.principal_name}",
        "expires": show_time(response.expiry_timestamp_ms),
        "max": show_time(response.max_timestamp_ms),
    }
    if json:
        show_json(row)
        return
    for name, value in row.items():
        print(f"{name:<8}  {value}")


@app.command()
def renew(
    hmac: Secret,
    period_ms: Annotated[
        int, typer.Option("--period-ms", metavar="MS", help="-1: as the brokers' default.")
    ] = -1,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Renew a token that you own, or are a renewer of.

    \b
    Examples:
      barnabas tokens renew "$HMAC"
      barnabas tokens renew "$HMAC" --period-ms 3600000
    """
    _move_expiry(bootstrap, "RENEW_DELEGATION_TOKEN", hmac, json, renew_period_ms=period_ms)


@app.command()
def expire(
    hmac: Secret,
    period_ms: Annotated[
        int, typer.Option("--period-ms", metavar="MS", help="After so long; -1: remove it now.")
    ] = -1,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove a token that you own, or are a renewer of, or shorten its life.

    \b
    Examples:
      barnabas tokens expire "$HMAC"
      barnabas tokens expire "$HMAC" --period-ms 60000
    """
    _move_expiry(bootstrap, "EXPIRE_DELEGATION_TOKEN", hmac, json, expiry_time_period_ms=period_ms)


@app.command("list")
def list_tokens(
    owner: Annotated[
        list[str] | None,
        typer.Option("--owner", metavar="TYPE:NAME", help="Only of these; repeatable."),
    ] = None,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """List the tokens that you may see. With --json the HMACs are shown, too.

    \b
    Examples:
      barnabas tokens list
      barnabas tokens list --owner User:alice --json
    """
    from barnabas.client.metadata import fields
    from barnabas.wire.apis import ApiKey

    wanted = None if owner is None else _principals("--owner", owner)
    response = _ask(bootstrap, ApiKey.DESCRIBE_DELEGATION_TOKEN, fields(owners=wanted))
    rows = [_row(each) for each in sorted(response.tokens, key=lambda token: token.issue_timestamp)]
    show_rows(rows, COLUMNS, json=json, none="no tokens")


def _row(token: Any) -> dict[str, object]:
    requester = (token.token_requester_principal_type, token.token_requester_principal_name)
    return {
        "token_id": token.token_id,
        "owner": f"{token.principal_type}:{token.principal_name}",
        "requester": ":".join(requester),
        "renewers": [f"{each.principal_type}:{each.principal_name}" for each in token.renewers],
        "issued": show_time(token.issue_timestamp),
        "expires": show_time(token.expiry_timestamp),
        "max": show_time(token.max_timestamp),
        "hmac": base64.b64encode(token.hmac).decode(),
    }


def _principal(option: str, text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise Misused(f"{option} {text}: must be TYPE:NAME, such as User:alice")
    return kind, name


def _principals(option: str, texts: list[str]) -> tuple[object, ...]:
    from barnabas.client.metadata import fields

    return tuple(
        fields(principal_type=kind, principal_name=name)
        for kind, name in (_principal(option, text) for text in texts)
    )


def _secret(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise Misused("HMAC: must be in base64, as `barnabas tokens create` prints it") from None


def _move_expiry(bootstrap: str, api: str, hmac: str, json: bool, **period: int) -> None:
    from barnabas.client.metadata import fields
    from barnabas.wire.apis import ApiKey

    response = _ask(bootstrap, ApiKey[api], fields(hmac=_secret(hmac), **period))
    expires = show_time(response.expiry_timestamp_ms)
    if json:
        show_json({"expires": expires})
    else:
        print(f"expires   {expires}")


def _ask(bootstrap: str, key: "ApiKey", request: object) -> Any:
    from barnabas.base.errors import ErrorCode
    from barnabas.cli.raw_client import RawClient, ask_cluster
    from barnabas.client.retries import error_words

    async def ask(client: RawClient) -> Any:
        return await client.ask_controller(key, request)

    response = ask_cluster(bootstrap, ask)
    if response.error_code is ErrorCode.delegation_token_auth_disabled:
        raise CommandFailed(
            "the brokers have no delegation tokens: set delegation.token.secret.key on all of them"
        )
    if response.error_code is not ErrorCode.none:
        raise CommandFailed(error_words(response.error_code))
    return response
