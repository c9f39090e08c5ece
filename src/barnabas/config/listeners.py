"""Listeners and advertised listeners: NAME://host:port lists, parsed by Kafka's rules."""

import socket
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Listener(NamedTuple):
    """One endpoint. An empty host means every interface; port 0 any free port."""

    name: str
    host: str
    port: int
    protocol: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


def parse_protocol_map(text: str) -> dict[str, str]:
    """The security protocol of each listener name, from NAME:PROTOCOL,NAME:PROTOCOL."""
    protocols: dict[str, str] = {}
    for item in split_list(text):
        name, colon, protocol = item.rpartition(":")
        if not colon or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"Invalid security protocol `{protocol.strip()}` defined in"
                f" listener.security.protocol.map (known: {', '.join(SECURITY_PROTOCOLS)})"
            )
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(
    text: str, protocols: Mapping[str, str], *, distinct_ports: bool = True
) -> list[Listener]:
    """The endpoints in `text`, in its order.

    Names are distinct. So are ports, if `distinct_ports`, except for 0 and for one IPv4 address
    beside one IPv6 address.

    Raises  ConfigError, which quotes `text`, otherwise
    """
    found = [_parse_listener(item, text, protocols) for item in split_list(text)]
    if len({listener.name for listener in found}) != len(found):
        raise ConfigError(f"Each listener must have a different name, listeners: {text}")
    if distinct_ports:
        for port in sorted({listener.port for listener in found} - {0}):
            _check_port(port, [listener.host for listener in found if listener.port == port], text)
    return found


def split_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


def _parse_listener(item: str, text: str, protocols: Mapping[str, str]) -> Listener:
    name, scheme, address = item.partition("://")
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    well_formed = scheme and colon and _is_host(host) and port.isascii() and port.isdigit()
    if not well_formed or int(port) > 65535:
        why = f"Unable to parse {item} to a broker endpoint (NAME://host:port is expected)"
    elif name.upper() not in protocols:
        why = f"No security protocol defined for listener {name.upper()}"
    else:
        return Listener(name.upper(), host, int(port), protocols[name.upper()])
    raise ConfigError(f"Error creating broker listeners from '{text}': {why}")


def _is_host(host: str) -> bool:
    return all(char.isascii() and (char.isalnum() or char in "-%._:") for char in host)


def _check_port(port: int, hosts: list[str], text: str) -> None:
    if len(hosts) == 1:
        return
    families = sorted(_address_families(hosts))
    if families == sorted((socket.AF_INET, socket.AF_INET6)) and len(hosts) == 2:
        return
    if not families:
        raise ConfigError(f"Each listener must have a different port, listeners: {text}")
    raise ConfigError(
        "If you have two listeners on the same port then one needs to be IPv4 and the other IPv6,"
        f" listeners: {text}, port: {port}"
    )


def _address_families(hosts: Iterable[str]) -> list[int]:
    return [
        family
        for host in hosts
        for family in (socket.AF_INET, socket.AF_INET6)
        if _is_address(host, family)
    ]


def _is_address(host: str, family: int) -> bool:
    try:
        socket.inet_pton(family, host)
    except OSError:
        return False
    return True
