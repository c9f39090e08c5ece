"""`barnabas cluster`: a local cluster, one process per broker, until Ctrl-C or SIGTERM."""

from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.options import parse_pairs


def cluster(
    brokers: Annotated[
        int, typer.Option("--brokers", "-n", min=1, max=100, help="Number of brokers.")
    ] = 3,
    base_port: Annotated[
        int,
        typer.Option(
            "--base-port",
            "-p",
            min=0,
            max=65535,
            help="Port of broker 0; broker N listens on PORT+N. 0 picks free ports.",
        ),
    ] = 9092,
    data: Annotated[
        Path, typer.Option("--data", "-d", metavar="DIR", help="Data directory of the cluster.")
    ] = Path("barnabas-cluster"),
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,...][/CHROOT]",
            help="Use this ZooKeeper; default: run one for the cluster.",
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override", "-o", metavar="KEY=VALUE", help="Config of all brokers; repeatable."
        ),
    ] = None,
    secure: Annotated[
        bool, typer.Option("--secure", help="With TLS, SCRAM, ACLs and an admin user.")
    ] = False,
    restart: Annotated[bool, typer.Option("--restart", help="Restart brokers that die.")] = False,
    console: Annotated[
        bool, typer.Option("--console", help="Serve the web console of the cluster, too.")
    ] = False,
    console_listen: Annotated[
        str, typer.Option("--console-listen", metavar="HOST:PORT", help="Address of the console.")
    ] = "127.0.0.1:8080",
) -> None:
    """Run a local cluster until SIGTERM or Ctrl-C; a second Ctrl-C kills it.

    Prints `ready ... listening on HOST:PORT,...` on stdout when all brokers have registered; all
    other output goes to stderr. DIR holds broker-N/server.properties, broker-N/broker.log and
    broker-N.pid. Without --restart, a broker that dies stays down; start it by hand with
    barnabas server --config DIR/broker-N/server.properties. A cluster restarted in the same DIR
    keeps its data. With --secure, DIR/client.properties and DIR/client.librdkafka let the admin
    in: barnabas topics list --command-config DIR/client.properties.

    \b
    Examples:
      barnabas cluster
      barnabas cluster --console                           (then open http://127.0.0.1:8080/)
      barnabas cluster --secure --data ./secure            (clients need secure/client.properties)
      barnabas cluster --brokers 5 --base-port 19092 --data /var/tmp/five
      barnabas cluster --zookeeper zk1:2181,zk2:2181/barnabas -o num.partitions=6
      kill -9 $(cat barnabas-cluster/broker-1.pid)         (leaders move to other brokers)
    """
    from barnabas.cli.cluster.cluster_run import run_cluster

    overrides = parse_pairs(override, "--override")
    listen = console_listen if console else None
    raise typer.Exit(
        run_cluster(
            brokers,
            base_port,
            data,
            zookeeper,
            overrides,
            restart=restart,
            secure=secure,
            console=listen,
        )
    )
