"""The options that all commands of `barnabas pipeline` share."""

from collections.abc import Mapping
from typing import Annotated, Final

import typer

from barnabas.cli.connecting import given_properties
from barnabas.cli.options import parse_bootstrap, parse_pairs
from barnabas.spark.session import SparkPlace

_ONCE: Final = {"spark.task.maxFailures": "1", "spark.speculation": "false"}

Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="BARNABAS_SPARK_MASTER",
        metavar="URL",
        help="Spark master: local[*] for this machine, or spark://HOST:PORT, yarn, k8s://...",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="BARNABAS_SPARK_REMOTE",
        metavar="sc://HOST:PORT",
        help="Spark Connect server to use instead of a master.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="Spark property; repeatable."),
]
Continuous = Annotated[
    bool, typer.Option("--continuous", "-c", help="Keep processing new records until Ctrl-C.")
]
Every = Annotated[
    float,
    typer.Option(
        "--every", min=0.1, max=86_400, help="Seconds between two checks for new records."
    ),
]


def spark_place(
    master: str, remote: str | None, conf: list[str] | None, *, once: bool = False
) -> SparkPlace:
    """Where Spark runs; with `once` it retries no task, so no records are written twice."""
    return SparkPlace(master, remote, (_ONCE if once else {}) | parse_pairs(conf, "--conf"))


def sink_options(options: Mapping[str, str], place: SparkPlace) -> Mapping[str, str]:
    """The options of a write that must contain the records of every task once.

    Embedded Spark never retries a task, and no task outlives the command. A Spark cluster may do
    both, so there the records of a write become visible only when all its tasks have finished.
    """
    return options if place.is_embedded else {**options, "exactlyOnce": "true"}


def source_options(bootstrap: str, properties: list[str] | None) -> Mapping[str, str]:
    """The options with which the data source connects to the brokers of the command."""
    of_client = {**given_properties(), **parse_pairs(properties, "-X")}
    given = {f"kafka.{key}": value for key, value in of_client.items()}
    return {"kafka.bootstrap.servers": parse_bootstrap(bootstrap), **given}
