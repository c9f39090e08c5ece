"""The security of a command's connections: `--command-config FILE` and `-X KEY=VALUE`.

Every command that has bootstrap brokers gets these options where it is loaded. The clients that
the command makes find the properties here.
"""

import inspect
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.options import Properties, parse_pairs

if TYPE_CHECKING:
    from barnabas.client.security import SecurityContext

_GIVEN: ContextVar[Mapping[str, str]] = ContextVar(
    "connection properties", default=MappingProxyType({})
)
_BROKERS: Final = "bootstrap.servers"
_OF_A_FILE: Final = (_BROKERS, "security.", "ssl.", "sasl.", "enable.ssl", "enable.sasl")
NOT_SPOKEN: Final = "accepts connections but does not speak"
CHECK_CREDENTIALS: Final = "check user, password and stores in --command-config or -X"
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="BARNABAS_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties of the client, as Kafka's tools read them: TLS, SASL, brokers.",
    ),
]


def with_connection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the options, if it has bootstrap brokers."""
    signature = inspect.signature(function)
    if "bootstrap" not in signature.parameters or hasattr(function, "__wrapped__"):
        return function
    has_properties = "properties" in signature.parameters
    added: dict[str, Any] = {"command_config": CommandConfig, "context": typer.Context}
    if not has_properties:
        added["connection_properties"] = Properties

    @wraps(function)
    def wrapped(**given: Any) -> Any:
        pairs = given["properties"] if has_properties else given.pop("connection_properties", None)
        file: Path | None = given.pop("command_config", None)
        context: typer.Context | None = given.pop("context", None)
        of_file = {} if file is None else _read(file)
        if (brokers := of_file.pop(_BROKERS, "")) and _is_default(context, "bootstrap"):
            given["bootstrap"] = brokers
        token = _GIVEN.set(of_file | parse_pairs(pairs, "-X"))
        try:
            return function(**given)
        finally:
            _GIVEN.reset(token)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        *(each.replace(kind=kind) for each in signature.parameters.values()),
        *(
            inspect.Parameter(name, kind, default=None, annotation=annotation)
            for name, annotation in added.items()
        ),
    ]
    described: Any = wrapped
    described.__signature__ = signature.replace(parameters=parameters)
    wrapped.__annotations__ = function.__annotations__ | added
    return wrapped


def _is_default(context: typer.Context | None, parameter: str) -> bool:
    """True if neither the command line nor the environment gives the parameter."""
    source = None if context is None else context.get_parameter_source(parameter)
    return source is not None and source.name == "DEFAULT"


def add_connection_options(app: typer.Typer) -> None:
    """Give all commands of a group the options."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = with_connection_options(command.callback)


def given_properties() -> Mapping[str, str]:
    """The properties that the command line gives, -X before the file."""
    return _GIVEN.get()


def given_security() -> "SecurityContext":
    """Raises  Misused"""
    from barnabas.base.errors import ConfigError
    from barnabas.client.security import PLAINTEXT, SecurityContext

    properties = given_properties()
    if "security.protocol" not in properties:
        return PLAINTEXT
    try:
        return SecurityContext.of(properties)
    except ConfigError as wrong:
        raise Misused(str(wrong)) from None


def unreached(bootstrap: str, reason: str, *, closed: bool) -> str:
    """The words for brokers none of which answers.

    `closed` is whether a connection was accepted and then closed, as a listener with TLS or SASL
    does to a client without.
    """
    if closed:
        protocol = given_properties().get("security.protocol", "PLAINTEXT")
        return (
            f"{bootstrap} {NOT_SPOKEN} {protocol} Kafka{reason}: the"
            " listener may have another security.protocol, such as SSL or SASL_SSL; name it with"
            " --command-config FILE or -X, or name another broker with -b HOST:PORT"
        )
    start = "start one with `barnabas server`, or " if "refused" in reason else ""
    return (
        f"no Kafka broker answers at {bootstrap}{reason}; {start}name others with"
        " -b HOST:PORT[,...] or in BARNABAS_BOOTSTRAP; name several brokers of a cluster, as any"
        " of them may be down"
    )


def is_refusal(why: str) -> bool:
    """True if a connection ended with an alert of TLS.

    With TLS 1.3 a client has connected before the broker refuses its certificate.
    """
    return "alert" in why.lower()


def _read(file: Path) -> dict[str, str]:
    """The security properties of a file; it may hold others, of other clients."""
    from barnabas.base.errors import ConfigError
    from barnabas.config.properties import read_properties

    try:
        properties = read_properties(file)
    except ConfigError as error:
        raise Misused(f"--command-config {error}") from None
    return {key: text for key, text in properties.items() if key.startswith(_OF_A_FILE)}
