"""`barnabas server`: its options for typer; imports nothing heavy until it runs."""

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
            help="Listen address; port 0 picks a free one. Default: 127.0.0.1:9092.",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", metavar="DIR", help="Log directory; default: barnabas-data."),
    ] = None,
    node_id: Annotated[
        int | None, typer.Option("--node-id", "-n", min=0, help="Broker id; default: 0.")
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="ZooKeeper of the cluster; default: a single broker without one.",
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            "--metrics",
            "-m",
            metavar="HOST:PORT",
            help="Serve Prometheus metrics on /metrics at this address.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override", "-o", metavar="KEY=VALUE", help="Override a config; repeatable."
        ),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    Prints `ready ... listening on HOST:PORT` once clients can connect. Configs have Kafka's
    names; options override the file, and --override overrides both.

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
