"""`barnabas demo`: a shop on three brokers, one of them killed, and a proof of no data loss."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from barnabas.cli.exit_codes import CommandFailed, Misused


def demo(
    seconds: Annotated[
        int, typer.Option("--seconds", "-s", min=10, max=3600, help="Duration of the sale.")
    ] = 24,
    rate: Annotated[
        int, typer.Option("--rate", "-r", min=60, max=20_000, help="Orders per second.")
    ] = 3_000,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="HTML report to write.")
    ] = Path("barnabas-demo.html"),
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep the files of cluster, pipeline and tables in this directory.",
        ),
    ] = None,
) -> None:
    """Run a cluster and a Spark pipeline, kill a broker, and prove that no order is lost.

    Takes about a minute. Starts ZooKeeper and three brokers on free ports. A shop sends orders
    with acks=all; a declarative Spark pipeline sums the revenue per minute and category, and
    writes it to a topic and to Parquet. Meanwhile a broker that leads partitions gets SIGKILL,
    and is restarted later. At the end every acknowledged order is looked up in the data.

    Leaves no process running, and no files except the report.
    The exit code is 1 if a claim does not hold.

    \b
    Examples:
      barnabas demo
      barnabas demo --seconds 60 --rate 5000
      barnabas demo --keep ./shop       (then: barnabas cluster --data ./shop/cluster)
    """
    _check_installed()
    from rich.console import Console

    from barnabas.base.clock import machine_stopwatch
    from barnabas.demo.demo_run import DemoOptions, DemoRun

    with _directory(keep) as directory:
        options = DemoOptions(directory, report.absolute(), seconds, rate)
        # Spark's messages are captured by a replacement of sys.stdout; this output is not.
        console = Console(file=sys.stdout, highlight=False)
        DemoRun(options, console, machine_stopwatch).run()


def _check_installed() -> None:
    missing = [name for name in ("pyspark", "pyarrow", "matplotlib") if find_spec(name) is None]
    if missing:
        raise CommandFailed(
            f"the demo needs {' and '.join(missing)}: run pip install 'barnabas[spark]'"
        )


@contextlib.contextmanager
def _directory(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as directory:
            yield Path(directory)
    else:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise Misused(f"--keep {keep}: not a directory") from None
        if any(keep.iterdir()):
            raise Misused(f"--keep {keep}: directory is not empty")
        yield keep.absolute()
