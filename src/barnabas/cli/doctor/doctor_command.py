"""`barnabas doctor`: what is wrong in an installation or a cluster, and what to do about it."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from barnabas.cli.doctor.finding import LEVELS, PROBLEM, UNCHECKED, WARNING
from barnabas.cli.exit_codes import FAILED
from barnabas.cli.options import Json, Properties
from barnabas.cli.show import counted, show_json

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.admin._metadata import ClusterMetadata

    from barnabas.cli.doctor.finding import Finding
    from barnabas.cli.raw_client import RawClient


def doctor(
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="Also check this log directory."),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            "--patience",
            min=0.5,
            metavar="SECONDS",
            help="How long a group may rebalance before it counts as stuck, and how long to wait"
            " for a record that shows the clock of a broker.",
        ),
    ] = 10.0,
    json: Json = False,
    properties: Properties = None,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar="BARNABAS_BOOTSTRAP",
            metavar="HOST:PORT[,...]",
            help="Also check this cluster, Barnabas or any Kafka.",
        ),
    ] = None,
) -> None:
    """Find what is wrong with this machine, a log directory or a cluster, and say what to do.

    Checks read only. The exit code is 1 if there is a problem, 0 if there are warnings at most.

    \b
    Examples:
      barnabas doctor
      barnabas doctor --data /var/lib/barnabas
      barnabas doctor -b kafka-1:9092,kafka-2:9092 --json
    """
    findings = [
        *_of_the_machine(data, bootstrap),
        *_of_the_cluster(bootstrap, properties, patience),
    ]
    findings.sort(key=lambda each: LEVELS.index(each.level))
    problems = [each for each in findings if each.level == PROBLEM]
    if json:
        listed = [each._asdict() for each in findings]
        show_json({"ok": not problems, "cluster": bootstrap, "findings": listed})
    else:
        _show(findings, bootstrap)
    if problems:
        raise typer.Exit(FAILED)


def _show(findings: "list[Finding]", bootstrap: str | None) -> None:
    for each in findings:
        print(f"{each.level}  {each.check}: {each.what}")
        print(f"         do: {each.todo}")
    if not findings:
        print("no problem found")
    else:
        levels = Counter(each.level for each in findings)
        total = f"{counted(levels[PROBLEM], 'problem')}, {counted(levels[WARNING], 'warning')}"
        print(f"{total}, {levels[UNCHECKED]} unchecked" if levels[UNCHECKED] else total)
    if bootstrap is None:
        print("no cluster was checked: name one with -b HOST:PORT")


def _of_the_machine(data: Path | None, bootstrap: str | None) -> "list[Finding]":
    from barnabas.cli.doctor import machine_checks

    return [
        *machine_checks.check_java(),
        *machine_checks.check_descriptors(),
        *(machine_checks.check_default_port() if bootstrap is None else ()),
        *(machine_checks.check_log_dir(data) if data is not None else ()),
    ]


def _of_the_cluster(
    bootstrap: str | None, properties: list[str] | None, patience_s: float
) -> "list[Finding]":
    if bootstrap is None:
        return []
    from barnabas.cli.client import ClusterClients
    from barnabas.cli.doctor.cluster_checks import check_listeners
    from barnabas.cli.doctor.finding import problem
    from barnabas.cli.exit_codes import CommandFailed, Misused

    try:
        client, metadata = ClusterClients(bootstrap, properties).admin()
    except Misused:
        raise
    except CommandFailed as failure:
        remedy = "read the logs of the brokers, and check the address in -b"
        return [problem("bootstrap", str(failure), remedy)]
    described: dict[int, Any] = metadata.brokers
    brokers = {broker: (each.host, each.port) for broker, each in described.items()}
    unreached = check_listeners(brokers)
    found = [*unreached.values(), *_of_the_metadata(client, metadata)]
    reached = [broker for broker in brokers if broker not in unreached]
    if not reached:
        return found  # nobody is left to ask
    return [
        *found,
        *_of_the_brokers(bootstrap, reached, metadata, patience_s),
        *_of_the_groups(client, bootstrap, patience_s),
    ]


def _of_the_metadata(client: "AdminClient", metadata: "ClusterMetadata") -> "list[Finding]":
    from barnabas.cli.doctor import cluster_checks
    from barnabas.cli.doctor.broker_checks import min_insync_replicas

    brokers: dict[int, Any] = metadata.brokers
    parts = cluster_checks.parts_of(metadata.topics)
    lagging = {part.topic for part in parts if not part.is_whole}
    return [
        *cluster_checks.check_down(parts, brokers),
        *cluster_checks.check_controller(metadata.controller_id, brokers),
        *cluster_checks.check_leaders(parts, brokers),
        *cluster_checks.check_replicas(parts, brokers),
        *cluster_checks.check_min_isr(parts, min_insync_replicas(client, sorted(lagging))),
        *cluster_checks.check_balance(parts, brokers),
    ]


def _of_the_brokers(
    bootstrap: str, brokers: list[int], metadata: "ClusterMetadata", patience_s: float
) -> "list[Finding]":
    from barnabas.base.clock import SystemClock
    from barnabas.cli.doctor.broker_checks import check_log_dirs, check_transactions
    from barnabas.cli.doctor.clock_checks import check_clocks
    from barnabas.cli.exit_codes import CommandFailed
    from barnabas.cli.raw_client import ask_cluster

    async def ask(client: "RawClient") -> "list[Finding]":
        return [
            *await check_log_dirs(client, brokers),
            *await check_clocks(client, brokers, metadata.topics, patience_s),
            *await check_transactions(client, SystemClock().now_ms()),
        ]

    try:
        return ask_cluster(bootstrap, ask)
    except CommandFailed:
        return []  # the check of listeners reports what does not answer


def _of_the_groups(client: "AdminClient", bootstrap: str, patience_s: float) -> "list[Finding]":
    from confluent_kafka import KafkaException

    from barnabas.cli.doctor.group_checks import check_groups

    try:
        return list(check_groups(client, bootstrap, patience_s))
    except KafkaException:
        return []  # without a coordinator: the check of leaders reports it
