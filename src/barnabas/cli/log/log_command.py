"""`barnabas log`: dump, verify and count the files of a broker, running or stopped."""

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from barnabas.cli.exit_codes import FAILED, CommandFailed
from barnabas.cli.options import Json
from barnabas.cli.subcommands import command_group

if TYPE_CHECKING:
    from barnabas.cli.log.dump_result import Damage, Dump, DumpEntry
    from barnabas.cli.log.verify_report import Problem

app = command_group(
    """Dump, verify and count the files of a broker, running or stopped.

    \b
    Examples:
      barnabas log dump barnabas-data/orders-0 --records
      barnabas log verify barnabas-data --deep
      barnabas log stats barnabas-data
    """
)

_SEGMENT_FILE: Final = re.compile(
    r"(\d{20})\.(log|index|timeindex|snapshot|txnindex)(\.deleted|\.cleaned|\.swap)?"
)


@app.command()
def dump(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR", help="Files or directories.")],
    records: Annotated[
        bool, typer.Option("--records", "-r", help="Print records: keys, values, headers.")
    ] = False,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Check the records in batches, and index positions."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Print a broker's files: segments, indexes, snapshots, checkpoints, properties.

    A damaged file is printed as far as it is readable; then one line on stderr reports the
    damage, and the exit code is 1.

    \b
    Examples:
      barnabas log dump barnabas-data/orders-0
      barnabas log dump barnabas-data/orders-0/00000000000000000000.log --records
      barnabas log dump barnabas-data --deep > /dev/null && echo no damage
    """
    errors: list[OSError] = []
    damaged = False
    for path, start in _files(paths, records, deep, errors):
        damaged |= _dump_file(path, start, json)
    for error in errors:
        _complain_unreadable(Path(error.filename), error)
    if damaged or errors:
        raise typer.Exit(FAILED)


@app.command()
def verify(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE|DIR", help="Files or directories.")],
    deep: Annotated[
        bool, typer.Option("--deep", help="Decompress every batch and check its records.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """Check that the files of a broker are intact and consistent with each other.

    Prints one line per problem: file, position, problem and consequence. The broker may be
    running. The exit code is 1 if there is any problem.

    \b
    Examples:
      barnabas log verify barnabas-data
      barnabas log verify barnabas-data/orders-0 --deep
      barnabas log verify barnabas-data/orders-0/00000000000000000000.timeindex
    """
    from barnabas.cli.log.log_files import find_broker_dirs, total_bytes
    from barnabas.cli.log.log_progress import reading_progress
    from barnabas.cli.log.log_verify import verify as verify_dirs
    from barnabas.cli.log.verify_report import VerifyReport

    directories, errors = find_broker_dirs(paths)
    with reading_progress(total_bytes(directories), "verifying") as advance:
        shown = VerifyReport((_print_problem_json if json else print), advance, deep)
        for error in errors:
            shown.report_unreadable(Path(error.filename), error)
        verify_dirs(directories, shown)
    partitions = sum(directory.is_partition for directory in directories)
    print(shown.summary_as_json(partitions) if json else shown.summary(partitions))
    if shown.problems:
        raise typer.Exit(FAILED)


def _print_problem_json(problem: "Problem") -> None:
    print(problem.as_json())


@app.command()
def stats(
    paths: Annotated[
        list[Path], typer.Argument(metavar="FILE|DIR", help="Segments or directories.")
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Read batches: compression ratio, keys, tombstones.")
    ] = False,
    json: Json = False,
) -> None:
    """Show segments, records, batches and sizes per partition and in total.

    \b
    Examples:
      barnabas log stats barnabas-data
      barnabas log stats barnabas-data/orders-0 --deep --json
    """
    from barnabas.cli.log.log_files import find_broker_dirs, total_bytes
    from barnabas.cli.log.log_progress import reading_progress
    from barnabas.cli.log.log_stats import columns, count_partition, total
    from barnabas.cli.show import show_json, show_table

    found, errors = find_broker_dirs(paths)
    directories = [directory for directory in found if directory.is_partition]
    with reading_progress(total_bytes(directories), "counting") as advance:
        counted = [
            count_partition(directory, deep, advance, errors.append) for directory in directories
        ]
    summed = total(counted)
    if json:
        partitions = [each.as_json() for each in counted]
        show_json({"partitions": partitions, "total": summed.as_json()})
    else:
        rows = [each.row(deep) for each in (*counted, summed)]
        show_table(columns(deep), rows)
    for error in errors:
        _complain_unreadable(Path(error.filename), error)
    if errors:
        raise typer.Exit(FAILED)


def _files(
    paths: list[Path], records: bool, deep: bool, errors: list[OSError]
) -> "Iterator[tuple[Path, Callable[[], Dump]]]":
    """The files to dump with their dumps; of a directory, only files of a broker.

    Errors of unreadable directories are added to `errors`.
    """
    from barnabas.cli.log.log_files import files_below

    for path in paths:
        below = files_below(path)
        known = [(each, start) for each in below.files if (start := _dump_of(each, records, deep))]
        if not known and not below.errors:
            raise CommandFailed(f"{path}: not a file of a broker")
        errors += below.errors
        yield from known


def _dump_of(path: Path, records: bool, deep: bool) -> "Callable[[], Dump] | None":
    """The dump of a file, by its name; None if it is not a file of a broker."""
    from barnabas.cli.log import file_dumps
    from barnabas.cli.log.segment_dump import dump_segment

    by_name = file_dumps.DUMPS_BY_NAME.get(path.name)
    if by_name is not None:
        return partial(by_name, path)
    match = _SEGMENT_FILE.fullmatch(path.name)
    if match is None:
        return None
    base_offset = int(match[1])
    return {
        "log": partial(dump_segment, path, base_offset, records=records, deep=deep),
        "index": partial(file_dumps.dump_offset_index, path, base_offset, deep),
        "timeindex": partial(file_dumps.dump_time_index, path, base_offset),
        "snapshot": partial(file_dumps.dump_snapshot, path),
        "txnindex": partial(file_dumps.dump_aborted_transactions, path),
    }[match[2]]


def _dump_file(path: Path, start: "Callable[[], Dump]", json: bool) -> bool:
    """Print one file; return whether it is damaged or unreadable."""
    from barnabas.cli.log.dump_result import Damage, entry_as_json, entry_as_text

    damages: list[Damage] = []
    errors: list[OSError] = []
    if not json:
        print(f"== {path}")
    for found in _as_far_as_readable(start):
        if isinstance(found, Damage):
            damages.append(found)
        elif isinstance(found, OSError):
            errors.append(found)
        else:
            print(entry_as_json(str(path), found) if json else entry_as_text(found))
    if damages:
        _complain(path, damages)
    for error in errors:
        _complain_unreadable(Path(error.filename or path), error)
    return bool(damages or errors)


def _as_far_as_readable(start: "Callable[[], Dump]") -> "Iterator[DumpEntry | Damage | OSError]":
    from barnabas.cli.log.dump_result import Damage
    from barnabas.cli.log.file_dumps import UNREADABLE

    try:
        yield from start()
    except OSError as error:
        yield error
    except UNREADABLE as error:
        yield Damage(None, " ".join(str(error).split()))


def _complain(path: Path, damages: "list[Damage]") -> None:
    more = f" (and {len(damages) - 1} more)" if len(damages) > 1 else ""
    sys.stdout.flush()
    print(f"barnabas: {path} is damaged: {damages[0]}{more}", file=sys.stderr)


def _complain_unreadable(path: Path, error: OSError) -> None:
    from barnabas.cli.log.log_files import explain_unreadable

    sys.stdout.flush()
    print(f"barnabas: {path}: {explain_unreadable(error)}", file=sys.stderr)
