"""`barnabas produce`: send lines, files or arguments to a topic."""

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
    parse_time,
)
from barnabas.cli.show import show_json

_STDIN: Final = Path("-")
_DEFAULT_MAX_SIZE: Final = "1000000"  # librdkafka's message.max.bytes


class CompressionType(StrEnum):
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
        typer.Argument(metavar="MESSAGE", help="Messages; default: read stdin."),
    ] = None,
    files: Annotated[
        list[Path] | None,
        typer.Option("--file", "-f", help="Read this file, not stdin (-); repeatable."),
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", "-l", help="Send each file, or all of stdin, as one message.")
    ] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all messages.")] = None,
    key_delimiter: Annotated[
        str | None,
        typer.Option("-K", metavar="DELIM", help="Text before the first DELIM is the key."),
    ] = None,
    delimiter: Annotated[
        str,
        typer.Option("-D", metavar="DELIM", help="Message delimiter; escapes \\n \\t \\xHH \\0."),
    ] = "\\n",
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Message header; repeatable."),
    ] = None,
    partition: Annotated[
        int,
        typer.Option("--partition", "-p", min=-1, max=2**31 - 1, help="-1: by key, as Java."),
    ] = -1,
    timestamp: Annotated[
        str | None,
        typer.Option("--timestamp", "-t", metavar="TIME", help="Milliseconds or ISO 8601."),
    ] = None,
    empty_is_null: Annotated[
        bool, typer.Option("-Z", help="Send empty keys and values as null (tombstones).")
    ] = False,
    codec: Annotated[CompressionType, typer.Option("--compression", "-z")] = CompressionType.none,
    acks: Annotated[
        Acks, typer.Option("--acks", "-a", help="Acknowledgements to wait for.")
    ] = Acks.all,
    count: Annotated[
        int | None, typer.Option("--count", "-c", min=1, help="Exit after this many messages.")
    ] = None,
    create: Annotated[
        bool, typer.Option("--create", help="Let the broker create a missing topic.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no summary on stderr.")
    ] = False,
    json: Json = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    properties: Properties = None,
) -> None:
    """Send messages: lines of stdin or of files, or the arguments.

    Stops at the first message that fails, with exit code 1. With acks=all, the default, retries
    do not duplicate messages.

    \b
    Examples:
      echo hello | barnabas produce orders
      barnabas produce orders 'first message' 'second message' -k customer-7
      barnabas produce users -K : -Z < users.txt          lines are KEY:VALUE; `KEY:` deletes
      barnabas produce photos --whole --file cat.jpg -H type=image/jpeg -z zstd
    """
    if values and (files or whole):
        raise Misused("specify messages either as arguments or as files")
    message_headers = [(name, _bytes(value)) for name, value in _pairs(headers)]
    timestamp_ms = parse_time(timestamp, "-t ") if timestamp is not None else 0
    separator = _delimiter(delimiter, "-D")
    key_separator = _delimiter(key_delimiter, "-K") if key_delimiter is not None else None
    max_size = _max_size(properties)

    from barnabas.cli.client import ClusterClients
    from barnabas.cli.io.message_sender import MessageSender, MessageSettings

    shape = MessageSettings(
        None if key is None else _bytes(key),
        key_separator,
        message_headers,
        partition,
        timestamp_ms,
        empty_is_null,
    )
    sender = MessageSender(ClusterClients(bootstrap, properties), topic, shape, codec, acks, create)
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
    """Header names and values; a name may occur more than once."""
    for header in headers or ():
        yield from parse_pairs([header], "-H").items()


def _delimiter(text: str, option: str) -> bytes:
    delimiter = unescape(text)
    if not delimiter:
        raise Misused(f"{option}: delimiter is empty")
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
