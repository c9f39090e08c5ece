"""`barnabas server` on the command line: its options, and nothing heavy until it runs."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.server.server_entry import serve


def server(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="A server.properties file."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            "-l",
            metavar="HOST:PORT",
            help="Where clients connect; port 0 takes a free one. 127.0.0.1:9092 without it.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="Where the log is kept; ./barnabas-data."),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", "-n", min=0, help="The broker's id; 0.")
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="Where the brokers of a cluster meet; without it this broker is alone.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            "-m",
            metavar="HOST:PORT",
            help="Serve metrics for Prometheus there, on /metrics; nowhere without it.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option("--override", "-o", metavar="KEY=VALUE", help="Above all; may be repeated."),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Prints `ready ... listening on HOST:PORT` once clients can use it. Properties have Kafka's
    names; an option is above the file, and --override above both.

    \b
    Examples:
      barnabas server
      barnabas server --listen :9092 --data /var/lib/barnabas      (every interface)
      barnabas server --listen :9092 -o advertised.listeners=PLAINTEXT://kafka.example.org:9092
      barnabas server --config server.properties --override log.retention.hours=24
      barnabas server --metrics 127.0.0.1:9192
      barnabas server --node-id 1 --listen :9093 --data ./one --zookeeper localhost:2181
    """
    raise typer.Exit(serve(config, listen, data, node_id, zookeeper, metrics, override or ()))
