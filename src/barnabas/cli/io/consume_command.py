"""`barnabas consume`: print the messages of a topic, without a consumer group or commits."""

import sys
from typing import Annotated

import typer

from barnabas.cli.exit_codes import Misused
from barnabas.cli.io.message_formats import (
    Format,
    compile_fields,
    compile_format,
    json_envelope,
    unescape,
)
from barnabas.cli.io.start_positions import parse_partitions, parse_positions
from barnabas.cli.options import DEFAULT_BOOTSTRAP, Bootstrap, Properties, Topic


def consume(
    topic: Topic,
    offsets: Annotated[
        list[str] | None,
        typer.Option(
            "--offset",
            "--from",
            "-o",
            metavar="WHERE",
            help="Start at beginning (or earliest), end (or latest), OFFSET, -COUNT from the end or"
            " s@TIME; stop at e@TIME. TIME is milliseconds since 1970 or ISO 8601. Default:"
            " beginning.",
        ),
    ] = None,
    partitions: Annotated[
        list[str] | None,
        typer.Option("--partition", "-p", metavar="N[,N|N-M]", help="Partitions; default: all."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Exit after this many messages.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-F", help="Wait for new messages until Ctrl-C.")
    ] = False,
    exit_at_end: Annotated[
        bool, typer.Option("--exit", "-e", help="Exit at the end; the default without --follow.")
    ] = False,
    format_string: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            help="%s value, %S value length, %R value length as 4 bytes, %k key, %K key length,"
            " %t topic, %p partition, %o offset, %T timestamp, %h headers, %%;"
            " escapes \\n \\r \\t \\xHH \\0.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", "-J", help="One JSON envelope per line, as kcat -J.")
    ] = False,
    fields: Annotated[
        str | None,
        typer.Option(
            "--print",
            metavar="FIELD[,...]",
            help="Fields before the value: topic, partition, offset, timestamp (milliseconds),"
            " time (ISO 8601), key, headers. The value is always last.",
        ),
    ] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("-K", metavar="DELIM", help="Print the key and DELIM before the value."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("-D", metavar="DELIM", help="Message delimiter.")
    ] = "\\n",
    print_null: Annotated[
        bool, typer.Option("-Z", help="Print NULL for null keys and values.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Print the messages of a topic up to its end; --follow waits for new ones.

    Values are written byte for byte. consume joins no consumer group and commits no offsets: it
    always starts where -o says.

    \b
    Examples:
      barnabas consume orders
      barnabas consume orders --follow --from end --print key,time
      barnabas consume orders -p 0 -o -10 -f 'offset %o: %k -> %s\\n'
      barnabas consume orders -o s@2026-01-31T12:00:00Z -o e@2026-01-31T13:00:00Z -J
    """
    if follow and exit_at_end:
        raise Misused("specify either --follow or --exit")
    to_bytes = _choose_format(format_string, json, fields, key_delimiter, delimiter, print_null)
    positions = parse_positions(offsets or ())
    wanted = parse_partitions(partitions or ())

    from barnabas.cli.client import ClusterClients
    from barnabas.cli.io.partition_reader import PartitionReader

    reader = PartitionReader(
        ClusterClients(bootstrap, properties), topic, wanted, positions, follow
    )
    output, left = sys.stdout.buffer, count
    try:
        for messages in reader.batches():
            output.write(b"".join(map(to_bytes, messages[:left])))
            output.flush()
            if left is not None:
                left -= min(left, len(messages))
                if not left:
                    break
    finally:
        reader.close()


def _choose_format(
    format_string: str | None,
    json: bool,
    fields: str | None,
    key_delimiter: str | None,
    delimiter: str,
    print_null: bool,
) -> Format:
    null = b"NULL" if print_null else b""
    if sum((format_string is not None, json, fields is not None)) > 1:
        raise Misused("specify only one of --format, --json and --print")
    if json:
        return json_envelope
    if format_string is not None:
        return compile_format(format_string, null)
    if fields is not None:
        separator = unescape(key_delimiter if key_delimiter is not None else "\\t")
        return compile_fields(fields.split(","), separator, unescape(delimiter), null)
    if key_delimiter is not None:
        return compile_fields(["key"], unescape(key_delimiter), unescape(delimiter), null)
    return compile_fields([], b"", unescape(delimiter), null)
