"""`barnabas console`: a web page that shows a Kafka cluster, until Ctrl-C or SIGTERM."""

import os
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.connecting import given_properties
from barnabas.cli.exit_codes import Misused
from barnabas.cli.extras import check_console_installed
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    parse_bootstrap,
    read_text,
)

if TYPE_CHECKING:
    from barnabas.console.console_options import ConsoleOptions

_MOST: Final = 65535
_OF_A_USER: Final = ("sasl.jaas.config", "sasl.username", "sasl.password")
# Those with a name and a password; a bearer token would be the console's, not the person's.
_SIGN_IN: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def console(
    listen: Annotated[
        str, typer.Option("--listen", "-l", metavar="HOST:PORT", help="Address to serve on.")
    ] = "127.0.0.1:8080",
    write: Annotated[
        bool, typer.Option("--write", help="Allow changes; without it the console only reads.")
    ] = False,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="File with the console's password; also BARNABAS_CONSOLE_PASSWORD.",
        ),
    ] = None,
    user_header: Annotated[
        str | None,
        typer.Option(
            "--user-header", metavar="NAME", help="Header in which a proxy names the person."
        ),
    ] = None,
    proxy: Annotated[
        list[str] | None,
        typer.Option(
            "--proxy",
            metavar="ADDRESS",
            help="Proxy whose --user-header is believed, besides this machine; repeatable.",
        ),
    ] = None,
    sign_in: Annotated[
        str | None,
        typer.Option(
            "--sign-in",
            metavar="MECHANISM",
            help="People sign in with their SASL user: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.",
        ),
    ] = None,
    audit_log: Annotated[
        Path | None,
        typer.Option("--audit-log", metavar="FILE", help="Append changes to this file, too."),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option("--data", "-d", metavar="DIR", help="A broker's log directory; repeatable."),
    ] = None,
    pipelines: Annotated[
        list[Path] | None,
        typer.Option(
            "--pipelines", metavar="DIR", help="Directory of pipeline projects; repeatable."
        ),
    ] = None,
    cluster: Annotated[
        Path | None,
        typer.Option(
            "--cluster",
            metavar="DIR",
            help="Directory of `barnabas cluster` on this machine, to shut down its brokers.",
        ),
    ] = None,
    registry: Annotated[
        str | None,
        typer.Option("--registry", metavar="URL", help="Schema registry, to decode messages."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
) -> None:
    """Serve a web console of a Kafka cluster until SIGTERM or Ctrl-C.

    Prints `ready ... http://HOST:PORT/` on stdout. Works with Barnabas and with Apache Kafka.
    On an address other than loopback it needs a password, --user-header or --sign-in.

    \b
    Examples:
      barnabas console
      barnabas console -b kafka:9092 --listen 127.0.0.1:9000 --write
      barnabas console --listen 0.0.0.0:8080 --password-file secret
      barnabas console --listen 0.0.0.0:8080 --user-header X-User --proxy 10.0.0.5
      barnabas console --command-config client.properties --write
      barnabas console -X security.protocol=SASL_SSL --sign-in SCRAM-SHA-512
    """
    check_console_installed()
    from barnabas.console.console_options import ConsoleOptions
    from barnabas.console.console_run import run_console

    host, port = parse_listen(listen)
    options = ConsoleOptions(
        bootstrap=parse_bootstrap(bootstrap),
        host=host,
        port=port,
        write=write,
        password=_password(password_file),
        user_header=user_header,
        proxies=_proxies(proxy or []),
        properties=_security(dict(given_properties()), sign_in),
        sasl_mechanism=sign_in.upper() if sign_in else None,
        audit_log=audit_log,
        data=tuple(data or ()),
        pipelines=tuple(pipelines or ()),
        registry=registry,
        cluster=cluster,
    )
    _check_door(options)
    raise typer.Exit(run_console(options))


def parse_listen(text: str) -> tuple[str, int]:
    """Raises Misused unless it is HOST:PORT"""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _MOST:
        raise Misused(f"--listen {text}: expected HOST:PORT such as 127.0.0.1:8080")
    return host.strip("[]"), int(port)


def _password(file: Path | None) -> str | None:
    given = read_text(file).strip() if file else os.environ.get("BARNABAS_CONSOLE_PASSWORD")
    if given == "":
        raise Misused("the console's password is empty")
    return given


def _proxies(addresses: list[str]) -> tuple[str, ...]:
    try:
        return tuple(str(ip_address(address)) for address in addresses)
    except ValueError as wrong:
        raise Misused(f"--proxy: {wrong}") from None


def _check_door(options: "ConsoleOptions") -> None:
    from barnabas.console.web.access import is_loopback

    doors = {
        "a password": options.password,
        "--user-header": options.user_header,
        "--sign-in": options.sasl_mechanism,
    }
    chosen = [name for name, value in doors.items() if value]
    if len(chosen) > 1:
        raise Misused(f"{' and '.join(chosen)}: only one of them would be asked for; choose one")
    if is_loopback(options.host):
        return
    if not (options.password or options.user_header or options.sasl_mechanism):
        raise Misused(
            f"--listen {options.host}: others than this machine reach it; set --password-file,"
            " --user-header or --sign-in, or listen on 127.0.0.1"
        )
    if options.user_header and not options.proxies:
        raise Misused(
            f"--user-header {options.user_header}: whoever reaches {options.host} could set it;"
            " name the proxy with --proxy ADDRESS, or listen on 127.0.0.1"
        )


def _security(properties: dict[str, str], sign_in: str | None) -> dict[str, str]:
    """The client's properties, checked. Raises Misused."""
    from barnabas.base.errors import ConfigError
    from barnabas.client.security import SecurityContext

    if sign_in is not None:
        if sign_in.upper() not in _SIGN_IN:
            raise Misused(f"--sign-in {sign_in}: expected one of {', '.join(_SIGN_IN)}")
        protocol = properties.setdefault("security.protocol", "SASL_PLAINTEXT")
        if not protocol.strip().upper().startswith("SASL_"):
            raise Misused(
                f"--sign-in {sign_in}: with security.protocol={protocol} the cluster checks no"
                " password; set SASL_SSL or SASL_PLAINTEXT"
            )
        return {key: text for key, text in properties.items() if key not in _OF_A_USER}
    try:
        SecurityContext.of(properties)
    except ConfigError as wrong:
        raise Misused(str(wrong)) from None
    return properties
