"""`barnabas demo`: a shop on three brokers, one of them killed, and the proof that all is there."""

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
        int, typer.Option("--seconds", "-s", min=10, max=3600, help="How long the shop sells.")
    ] = 24,
    rate: Annotated[
        int, typer.Option("--rate", "-r", min=60, max=20_000, help="Orders in a second.")
    ] = 3_000,
    report: Annotated[
        Path, typer.Option("--report", metavar="FILE", help="Where the HTML report goes.")
    ] = Path("barnabas-demo.html"),
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="FOLDER",
            help="Keep the cluster's files, the pipeline and its tables there.",
        ),
    ] = None,
) -> None:
    """See it all at work: a cluster, Spark, a broker killed in the middle, and not a cent lost.

    Takes about a minute. Starts ZooKeeper and three brokers on free ports; a shop sends its
    orders with acks=all; a declarative pipeline on Spark adds up the revenue of each minute and
    category, and writes it to a topic and to Parquet. Meanwhile a broker that leads partitions
    gets SIGKILL, and later returns. At the end every acknowledged order is looked for in the data.

    Leaves nothing running, and nothing on disk but the report.
    Ends with 1 if anything does not hold that is told.

    \b
    Examples:
      barnabas demo
      barnabas demo --seconds 60 --rate 5000
      barnabas demo --keep ./shop       (then: barnabas cluster --data ./shop/cluster)
    """
    _check_installed()
    from rich.console import Console

    from barnabas.base.clock import machine_stopwatch
    from barnabas.demo.demo_story import Choices, Story

    with _folder(keep) as folder:
        choices = Choices(folder, report.absolute(), seconds, rate)
        # Spark's own messages are caught by a stand-in for sys.stdout; these must not be.
        console = Console(file=sys.stdout, highlight=False)
        Story(choices, console, machine_stopwatch).tell()


def _check_installed() -> None:
    missing = [name for name in ("pyspark", "pyarrow", "matplotlib") if find_spec(name) is None]
    if missing:
        raise CommandFailed(
            f"the demo needs {' and '.join(missing)}; where Barnabas was cloned,"
            " pip install '.[spark]' brings what it shows"
        )


@contextlib.contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder:
            yield Path(folder)
    else:
        try:
            keep.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise Misused(f"--keep {keep}: this is a file, a folder is needed") from None
        if any(keep.iterdir()):
            raise Misused(f"--keep {keep}: there is something in it already; name a new folder")
        yield keep.absolute()
