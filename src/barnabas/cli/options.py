"""The options that commands share, and how their values are read."""

import re
from typing import Annotated, Final

import typer

from barnabas.cli.exit_codes import Misused

DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_BROKER: Final = re.compile(r"(\w+://)?(\[[^\]\s]+\]|[^:\[\]\s]+)(:(?P<port>[0-9]{1,5}))?")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BARNABAS_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="Brokers to begin with; they name the others.",
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="KEY=VALUE", help="A librdkafka property; may be repeated."),
]


def check_topics(names: str | list[str] | None) -> str | list[str] | None:
    """The names as they are. Raises Misused if one is empty, as an unset shell variable is."""
    if "" in ([names] if isinstance(names, str) else names or ()):
        raise Misused("the name of the topic is empty; give one")
    return names


Topic = Annotated[str, typer.Argument(metavar="TOPIC", callback=check_topics)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, str]:
    """Each KEY=VALUE as an item; the value may be empty and may contain `=`."""
    parsed: dict[str, str] = {}
    for pair in pairs or ():
        key, equals, value = pair.partition("=")
        if not key or not equals:
            raise Misused(f"{option} {pair}: expected KEY=VALUE")
        parsed[key.strip()] = value
    return parsed


def parse_bootstrap(bootstrap: str) -> str:
    """The list of brokers as it is, if each is HOST, HOST:PORT or [IPV6]:PORT."""
    for broker in bootstrap.split(","):
        match = _BROKER.fullmatch(broker.strip())
        if match is None or int(match["port"] or 1) not in range(1, 65536):
            raise Misused(f"-b {bootstrap}: {broker!r} is no broker; expected HOST:PORT[,...]")
    return bootstrap
