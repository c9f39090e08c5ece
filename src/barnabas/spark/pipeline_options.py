"""The options that the commands of `barnabas pipeline` share."""

from collections.abc import Mapping
from typing import Annotated

import typer

from barnabas.cli.options import parse_bootstrap, parse_pairs
from barnabas.spark.session import SparkPlace

Master = Annotated[
    str,
    typer.Option(
        "--master",
        envvar="BARNABAS_SPARK_MASTER",
        metavar="URL",
        help="Spark's master: local[*] is this machine, or spark://HOST:PORT, yarn, k8s://...",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        "--remote",
        envvar="BARNABAS_SPARK_REMOTE",
        metavar="sc://HOST:PORT",
        help="A server of Spark Connect to use instead of a master.",
    ),
]
Conf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A property of Spark; may be repeated."),
]
Continuous = Annotated[
    bool, typer.Option("--continuous", "-c", help="Go on until Ctrl-C, as new records come.")
]
Every = Annotated[
    float, typer.Option("--every", min=0.1, max=86_400, help="Seconds between two looks.")
]


def spark_place(master: str, remote: str | None, conf: list[str] | None) -> SparkPlace:
    return SparkPlace(master, remote, parse_pairs(conf, "--conf"))


def sink_options(options: Mapping[str, str], place: SparkPlace) -> Mapping[str, str]:
    """The same for a write of which every task's part shall be there once.

    In the embedded Spark no task is repeated, or outlives the command. Elsewhere that may happen,
    whatever the command asks for, so what tasks write counts only when all of them are done.
    """
    return options if place.is_embedded else {**options, "exactlyOnce": "true"}


def source_options(bootstrap: str, properties: list[str] | None) -> Mapping[str, str]:
    """What the data source needs to reach the same brokers as the commands do."""
    given = {f"kafka.{key}": value for key, value in parse_pairs(properties, "-X").items()}
    return {"kafka.bootstrap.servers": parse_bootstrap(bootstrap), **given}
