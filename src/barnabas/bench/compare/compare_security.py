"""`bench compare --protocol`: both systems with TLS, or with TLS and SASL, and the rows for it."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from barnabas.bench.bench_plan import CONNECTIONS, WINDOW
from barnabas.bench.clusters.bench_topics import PATIENCE_S
from barnabas.bench.compare.compare_cases import (
    BASE,
    PREPARED_BYTES,
    Case,
    CaseMetric,
    Effort,
    moved,
)
from barnabas.bench.compare.compare_load import ClientLoad, topic
from barnabas.bench.compare.compare_sites import HOST, Site, System
from barnabas.bench.limits.load_generator import ConnectionLoad
from barnabas.bench.limits.load_messages import batch_of, produce
from barnabas.bench.limits.secured_load import drive_secured
from barnabas.config.jaas import jaas_text

Settings = Mapping[str, str]
PROTOCOLS: Final = ("SSL", "SASL_SSL")
PRODUCE_GOAL: Final = 1.5
CONSUME_GOAL: Final = 1.0
_USER, _PASSWORD = "bench", "bench-secret"
_MODULE: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LOADS: Final = (
    BASE,
    replace(BASE, partitions=1),
    replace(BASE, record_bytes=100),
    replace(BASE, producers=10),
)


def secured(protocol: str, system: Callable[[Settings, Settings], System]) -> System:
    """`system` of properties and login, with certificates in the directory of each cluster."""

    def start(folder: Path, count: int) -> AbstractContextManager[Site]:
        return system(*_settings(protocol, folder / "keys")).start(folder, count)

    return System(system({}, {}).name, start)


def _settings(protocol: str, keys: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The properties of brokers, and librdkafka's settings for their clients.

    The listener is named PLAINTEXT, as without security.
    """
    from barnabas.security.certificate_authority import CertificateAuthority

    authority = CertificateAuthority.create(keys)
    store, trusted = authority.issue("broker", ["localhost", HOST]).pem, keys / "ca.pem"
    properties = {
        "listener.security.protocol.map": f"PLAINTEXT:{protocol}",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.location": str(store),
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.type": "PEM",
    }
    login = {"security.protocol": protocol.lower(), "ssl.ca.location": str(trusted)}
    if protocol == "SASL_SSL":
        users = {"username": _USER, "password": _PASSWORD, f"user_{_USER}": _PASSWORD}
        properties |= {
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": jaas_text(_MODULE, users),
        }
        login |= {"sasl.mechanism": "PLAIN", "sasl.username": _USER, "sasl.password": _PASSWORD}
    return properties, login


def secured_cases(protocol: str) -> Sequence[Case]:
    return [*(_case(protocol, load) for load in _LOADS), _prepared_case(protocol)]


def _case(protocol: str, load: ClientLoad) -> Case:
    name = f"{protocol}, {load.name}"
    rows = (
        CaseMetric(f"produce, {name}", "MB/s", goal=PRODUCE_GOAL),
        CaseMetric(f"consume, {name}", "MB/s", goal=CONSUME_GOAL),
    )
    return Case(f"produce {name}", rows, partial(moved, load), work_s=15.0)


def _prepared_case(protocol: str) -> Case:
    name = f"produce, {protocol}, 100 B, requests prepared, {CONNECTIONS} connections"
    row = CaseMetric(name, "MB/s", goal=PRODUCE_GOAL)
    return Case(f"prepared {protocol}", (row,), _prepared, local=True)


def _prepared(site: Site, effort: Effort) -> tuple[float]:
    """MB/s of prepared requests, in TLS records as large as they can be."""
    (broker,) = site.brokers
    batch, count = batch_of(PREPARED_BYTES), effort.total_bytes // PREPARED_BYTES
    sent, seconds = 0, 0.0
    while not sent or seconds < effort.load_s:
        with topic(site, CONNECTIONS) as name:
            load = ConnectionLoad(CONNECTIONS, WINDOW, count, PATIENCE_S)
            rate = drive_secured(HOST, broker.port, site.login, produce(batch, name), load)
        sent += count
        seconds += count / rate
    return (sent * PREPARED_BYTES / 1e6 / seconds,)
