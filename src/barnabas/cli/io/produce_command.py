"""`barnabas produce`: send lines, files or arguments to a topic, and tell what was delivered."""

import sys
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from barnabas.base.clock import SystemClock
from barnabas.cli.exit_codes import CommandFailed, Misused
from barnabas.cli.io.delimited import split
from barnabas.cli.io.message_formats import unescape
from barnabas.cli.options import (
    DEFAULT_BOOTSTRAP,
    Bootstrap,
    Json,
    Properties,
    Topic,
    parse_pairs,
)
from barnabas.cli.show import parse_time, show_json

_STDIN: Final = Path("-")
_DEFAULT_MAX_SIZE: Final = "1000000"  # librdkafka's message.max.bytes


class Codec(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Acks(StrEnum):
    none = "0"
    leader = "1"
    all = "all"


def produce(
    topic: Topic,
    values: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MESSAGE]...", help="Messages; stdin is read without any."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Read this file, not stdin (-); may be repeated."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", "-l", help="Each file, or all of stdin, is one message.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of all messages.")] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("-K", metavar="DELIM", help="What is before the first DELIM is the key."),
    ] = None,
    delimiter: Annotated[
        str, typer.Option("-D", metavar="DELIM", help="Between messages; \\n \\t \\xHH \\0 work.")
    ] = "\\n",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    partition: Annotated[
        int,
        typer.Option("--partition", "-p", min=-1, max=2**31 - 1, help="-1: by the key, as Java."),
    ] = -1,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", "-t", metavar="TIME", help="In ms or ISO 8601; now without."),
    ] = None,
    empty_is_null: Annotated[
        bool, typer.Option("-Z", help="Empty keys and values are null: -K and -Z make tombstones.")
    ] = False,
    codec: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.none,
    acks: Annotated[
        Acks, typer.Option("--acks", "-a", help="Who must have a message before it counts.")
    ] = Acks.all,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Stop after so many messages.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Let the broker create the topic if it is not there.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No report on stderr.")] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Send messages: the lines of stdin or of files, or the arguments.

    Stops, and ends with 1, at the first message that was not delivered. With acks=all, the
    default, a message that had to be sent again is not doubled.

    \b
    Examples:
      echo hello | barnabas produce orders
      barnabas produce orders 'first message' 'second message' -k customer-7
      barnabas produce users -K : -Z < users.txt          lines are KEY:VALUE, `KEY:` deletes
      barnabas produce photos --whole --file cat.jpg -H type=image/jpeg -z zstd
    """
    if values and (files or whole):
        raise Misused("give messages as arguments or as files, not both")
    message_headers = [(name, _bytes(value)) for name, value in _pairs(headers)]
    timestamp_ms = parse_time(timestamp, "-t ") if timestamp is not None else 0
    separator = _delimiter(delimiter, "-D")
    key_separator = _delimiter(key_delimiter, "-K") if key_delimiter is not None else None
    max_size = _max_size(properties)

    from barnabas.cli.client import Cluster
    from barnabas.cli.io.message_sender import Sender, Shape

    shape = Shape(
        None if key is None else _bytes(key),
        key_separator,
        message_headers,
        partition,
        timestamp_ms,
        empty_is_null,
    )
    sender = Sender(Cluster(bootstrap, properties), topic, shape, codec, acks, create)
    progress = sys.stderr.isatty() and not quiet and not values and not sys.stdin.isatty()
    try:
        for payload in _payloads(values, files, whole, separator, max_size):
            sender.send(payload)
            if progress:
                sender.show_progress(SystemClock())
            if sender.sent == count or sender.failed:
                break
    finally:
        sender.finish()
        if json:
            show_json(sender.summary())
        if sender.sent and not sender.failed and not quiet:
            print(("\r\x1b[K" if progress else "") + sender.report(), file=sys.stderr)
    if sender.failed:
        raise CommandFailed(sender.report() + sender.hint())


def _max_size(properties: list[str] | None) -> int:
    text = parse_pairs(properties, "-X").get("message.max.bytes", _DEFAULT_MAX_SIZE)
    if not (text.isascii() and text.isdigit()):
        raise Misused(f"-X message.max.bytes={text}: expected a number of bytes")
    return int(text)


def _pairs(headers: list[str] | None) -> Iterator[tuple[str, str]]:
    """Names with values; a name may come more than once."""
    for header in headers or ():
        yield from parse_pairs([header], "-H").items()


def _delimiter(text: str, option: str) -> bytes:
    delimiter = unescape(text)
    if not delimiter:
        raise Misused(f"{option}: a delimiter cannot be empty")
    return delimiter


def _bytes(argument: str) -> bytes:
    return argument.encode("utf-8", "surrogateescape")


def _payloads(
    values: list[str] | None,
    files: list[Path] | None,
    whole: bool,
    delimiter: bytes,
    max_size: int,
) -> Iterator[bytes]:
    if values:
        yield from map(_bytes, values)
        return
    for path in files or [_STDIN]:
        try:
            with open(0 if path == _STDIN else path, "rb", closefd=path != _STDIN) as stream:
                if whole:
                    yield stream.read()
                else:
                    yield from split(stream, delimiter, max_size)
        except OSError as error:
            raise CommandFailed(f"{path}: {error.strerror}") from None
