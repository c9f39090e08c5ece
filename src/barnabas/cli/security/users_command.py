"""`barnabas users`: users with SCRAM credentials."""

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Json, Yes, confirm
from barnabas.cli.show import show_rows
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.cli.raw_client import RawClient

_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_SALT_BYTES: Final = 20

app = command_group("Add, list and delete users with SCRAM credentials.")

User = Annotated[str, typer.Argument(metavar="USER")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--mechanism", "-m", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable."
    ),
]


@app.command()
def add(
    user: User,
    mechanism: Mechanisms = None,
    password: Annotated[
        str | None,
        typer.Option(
            "--password",
            envvar="BARNABAS_PASSWORD",
            help="The password; it is asked for, or read from standard input, if not given.",
        ),
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=4096, max=16384, help="Rounds of the hash.")
    ] = 4096,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Add a user, or set the user's password; by default for both mechanisms.

    \b
    Examples:
      barnabas users add alice
      echo "$SECRET" | barnabas users add alice --mechanism SCRAM-SHA-512
    """
    chosen = _chosen(mechanism)
    secret = password if password is not None else _asked(user)
    if not secret:
        raise Misused("the password is empty")
    _alter(bootstrap, user, upsertions=chosen, password=secret, iterations=iterations)
    print(f"user {user} can authenticate with {' and '.join(chosen)}")


@app.command("list")
def list_all(json: Json = False, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP) -> None:
    """List users and their mechanisms.

    \b
    Examples:
      barnabas users list
      barnabas users list --json | jq -r '.[].user'
    """
    from barnabas.cli.raw_client import ask_cluster

    show_rows(ask_cluster(bootstrap, _rows), ("user", "mechanism", "iterations"), json=json)


@app.command()
def delete(
    user: User,
    mechanism: Mechanisms = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete a user's credentials; by default all of them.

    \b
    Examples:
      barnabas users delete alice
      barnabas users delete alice --mechanism SCRAM-SHA-256
    """
    from barnabas.cli.raw_client import ask_cluster

    if not yes:
        confirm(f"Delete the credentials of {user}?", "nothing is deleted")
    chosen = _chosen(mechanism)
    if mechanism is None:
        rows = ask_cluster(bootstrap, _rows)
        chosen = [str(row["mechanism"]) for row in rows if row["user"] == user]
        if not chosen:
            raise CommandFailed(f"there is no user {user} with SCRAM credentials")
    _alter(bootstrap, user, deletions=chosen)
    print(f"credentials of {user} deleted: {', '.join(chosen)}")


def _chosen(mechanisms: list[str] | None) -> list[str]:
    chosen = [each.upper() for each in mechanisms or _MECHANISMS]
    for each in chosen:
        if each not in _MECHANISMS:
            raise Misused(f"--mechanism {each}: must be one of {', '.join(_MECHANISMS)}")
    return chosen


def _asked(user: str) -> str:
    if sys.stdin.isatty():
        return str(typer.prompt(f"Password of {user}", hide_input=True, confirmation_prompt=True))
    return sys.stdin.readline().rstrip("\n")


async def _rows(client: "RawClient") -> list[dict[str, object]]:
    from barnabas.base.errors import ErrorCode
    from barnabas.client.metadata import fields
    from barnabas.client.retries import error_words
    from barnabas.wire.apis import ApiKey

    response = await client.ask_controller(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, fields(users=None)
    )
    if response.error_code is not ErrorCode.none:
        raise CommandFailed(error_words(response.error_code, response.error_message))
    names = {number: name for name, number in _MECHANISMS.items()}
    return [
        {"user": each.user, "mechanism": names[info.mechanism], "iterations": info.iterations}
        for each in sorted(response.results, key=lambda result: str(result.user))
        for info in each.credential_infos
    ]


def _alter(
    bootstrap: str,
    user: str,
    *,
    upsertions: list[str] | None = None,
    deletions: list[str] | None = None,
    password: str = "",
    iterations: int = 4096,
) -> None:
    from barnabas.base.errors import ErrorCode
    from barnabas.base.randomness import Random
    from barnabas.cli.raw_client import ask_cluster
    from barnabas.client.metadata import fields
    from barnabas.client.retries import error_words
    from barnabas.client.scram import HASHES, salted_password
    from barnabas.wire.apis import ApiKey

    def upsertion(mechanism: str) -> object:
        salt = (Random().uuid().bytes + Random().uuid().bytes)[:_SALT_BYTES]
        return fields(
            name=user,
            mechanism=_MECHANISMS[mechanism],
            iterations=iterations,
            salt=salt,
            salted_password=salted_password(HASHES[mechanism], password, salt, iterations),
        )

    request = fields(
        deletions=tuple(fields(name=user, mechanism=_MECHANISMS[m]) for m in deletions or ()),
        upsertions=tuple(map(upsertion, upsertions or ())),
    )

    async def alter(client: "RawClient") -> None:
        response = await client.ask_controller(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
        for each in response.results:
            if each.error_code is not ErrorCode.none:
                words = error_words(each.error_code, each.error_message)
                raise CommandFailed(f"user {each.user}: {words}")

    ask_cluster(bootstrap, alter)
