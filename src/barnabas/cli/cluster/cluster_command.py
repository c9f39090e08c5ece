"""`barnabas cluster`: brokers on this machine, a process each, until Ctrl-C or SIGTERM."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.options import parse_pairs


def cluster(
    brokers: Annotated[int, typer.Option("--brokers", "-n", min=1, max=100, help="How many.")] = 3,
    base_port: Annotated[
        int,
        typer.Option(
            "--base-port",
            "-p",
            min=0,
            max=65535,
            help="The port of broker 0, the next of broker 1, ...; 0 takes free ones.",
        ),
    ] = 9092,
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="Where everything is kept.")
    ] = Path("barnabas-cluster"),
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="One that runs; without it the cluster runs its own.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override", "-o", metavar="KEY=VALUE", help="For all brokers; may be repeated."
        ),
    ] = None,
    restart: Annotated[
        bool, typer.Option("--restart", help="Start a broker that died again.")
    ] = False,
) -> None:
    """Run a cluster on this machine until SIGTERM or Ctrl-C; a second Ctrl-C ends it at once.

    Prints `ready ... listening on HOST:PORT,...` on stdout when all brokers are in; all else is
    told on stderr. DIR keeps broker-N/server.properties, broker-N/broker.log and broker-N.pid.
    A broker that died stays dead without --restart; barnabas server --config
    DIR/broker-N/server.properties starts it by hand. Started again over the same DIR, the
    cluster goes on where it was.

    \b
    Examples:
      barnabas cluster
      barnabas cluster --brokers 5 --base-port 19092 --data /var/tmp/five
      barnabas cluster --zookeeper zk1:2181,zk2:2181/barnabas -o num.partitions=6
      kill -9 $(cat barnabas-cluster/broker-1.pid)         (and see what happens)
    """
    from barnabas.cli.cluster.cluster_run import run_cluster

    overrides = parse_pairs(override, "--override")
    raise typer.Exit(run_cluster(brokers, base_port, data, zookeeper, overrides, restart=restart))
