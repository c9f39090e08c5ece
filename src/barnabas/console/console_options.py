"""The settings of one console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """The command line of `barnabas console`, checked."""

    bootstrap: str
    host: str = "127.0.0.1"
    port: int = 8080
    write: bool = False
    password: str | None = field(default=None, repr=False)
    user_header: str | None = None
    # Addresses whose user_header is believed, besides loopback.
    proxies: tuple[str, ...] = ()
    # The client's properties for TLS and SASL, without a user if people sign in as themselves.
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    sasl_mechanism: str | None = None
    audit_log: Path | None = None
    data: tuple[Path, ...] = ()
    pipelines: tuple[Path, ...] = ()
    registry: str | None = None
    # The directory of `barnabas cluster`, whose brokers run on this machine.
    cluster: Path | None = None
