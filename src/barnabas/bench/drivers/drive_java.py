"""The driver of the Java client, which runs Kafka's performance tools.

Its arguments before the spec are the command line that runs Java up to the name of the class. The
tools have their own defaults: the consumer's has a receive buffer of 2 MiB and does not check CRCs,
the one for latencies sends with linger.ms=0 and acks=1, one message after the other came back. It
reports percentiles in whole milliseconds, hence only its mean is used.
"""

import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Any, Final

from barnabas.bench.drivers.driver_program import MessagesMissing, Spec, main

TOOLS: Final = "org.apache.kafka.tools"
ENDS_AFTER_SILENCE_MS: Final = 60_000
REPORTS_EVERY_MS: Final = 10
CLOCK_MS: Final = 1
_SENT: Final = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)
_MEAN: Final = re.compile(r"^Avg latency: ([\d.]+) ms", re.MULTILINE)
# start, end, MB, MB/s, messages, messages/s, rebalance ms, fetch ms, MB/s and messages/s of these
_CONSUMED: Final = re.compile(
    r"^\d{4}-\d\d-\d\d [\d:]+, \d{4}-\d\d-\d\d [\d:]+, ([\d.]+), [\d.]+, (\d+), [\d.]+, "
    r"(-?\d+), (-?\d+), ",
    re.MULTILINE,
)
# time, thread, MB, MB/s, messages, ...
_PROGRESS: Final = re.compile(r"^\d{4}-\d\d-\d\d [\d:]+, \d+, ([\d.]+), [\d.]+, (\d+), ")
MIB: Final = 1024 * 1024


def produced(output: str) -> dict[str, Any]:
    """The result of ProducerPerformance's output; its last matching line is the total."""
    found = _SENT.findall(output)
    if not found:
        raise MessagesMissing(_last(output))
    messages, rate = found[-1]
    return {"seconds": int(messages) / float(rate)}


def consumed(output: str, wanted: int) -> dict[str, Any]:
    """The result of ConsumerPerformance's output, without the time to join the group."""
    found = _CONSUMED.search(output)
    if found is None:
        raise MessagesMissing(_last(output))
    size, messages, fetch_ms = float(found[1]), int(found[2]), int(found[4])
    if messages < wanted:
        raise MessagesMissing(f"{messages} of {wanted} messages came")
    seconds = max(CLOCK_MS, fetch_ms) / 1e3
    return {"seconds": seconds, "messages": messages, "bytes": round(size * MIB)}


def progress(line: str) -> tuple[int, int] | None:
    """Messages and bytes so far, if ConsumerPerformance reports them in this line."""
    found = _PROGRESS.match(line)
    return None if found is None else (int(found[2]), round(float(found[1]) * MIB))


def mean_latency(output: str) -> dict[str, Any]:
    found = _MEAN.search(output)
    if found is None:
        raise MessagesMissing(_last(output))
    return {"mean_ms": float(found[1])}


def produce(spec: Spec) -> dict[str, Any]:
    return produced(
        _output(
            "ProducerPerformance", "--topic", spec.topic, "--num-records", spec.messages,
            "--record-size", spec.message_bytes, "--throughput", -1,
            "--producer-props", f"bootstrap.servers={spec.bootstrap}",
        )
    )  # fmt: skip


def consume(spec: Spec) -> dict[str, Any]:
    with tempfile.NamedTemporaryFile("w", suffix=".properties") as properties:
        properties.write(f"group.protocol={spec.protocol}\n")
        properties.flush()
        common = (
            "--bootstrap-server", spec.bootstrap, "--topic", spec.topic, "--group", spec.group,
            "--consumer.config", properties.name,
        )  # fmt: skip
        if spec.shared:
            return _consume_until_told(*common)
        output = _output("ConsumerPerformance", *common, "--messages", spec.messages)
    return consumed(output, spec.messages)


def latency(spec: Spec) -> dict[str, Any]:
    messages = int(spec.rate * spec.seconds)
    output = _output("EndToEndLatency", spec.bootstrap, spec.topic, messages, 1, spec.message_bytes)
    return {**mean_latency(output), "messages": messages}


def _consume_until_told(*common: object) -> dict[str, Any]:
    """Read until stdin has a line or ends; then kill the tool, which has no such option."""
    arguments = (
        *common, "--messages", 2**40, "--timeout", ENDS_AFTER_SILENCE_MS,
        "--show-detailed-stats", "--hide-header", "--reporting-interval", REPORTS_EVERY_MS,
    )  # fmt: skip
    messages = size = 0
    with subprocess.Popen(
        _command("ConsumerPerformance", *arguments), stdin=subprocess.DEVNULL, stdout=-1
    ) as java:
        for line in _until_stdin(java):
            if (found := progress(line)) is not None:
                messages, size = found
                print(json.dumps([time.time(), messages]), flush=True)
    return {"messages": messages, "bytes": size}


def _until_stdin(java: "subprocess.Popen[bytes]") -> Iterator[str]:
    """The tool's lines until stdin is readable; then kills it. Raises MessagesMissing if it exits
    before."""
    assert java.stdout is not None
    text = b""
    with selectors.DefaultSelector() as waiting:
        waiting.register(sys.stdin, selectors.EVENT_READ)
        waiting.register(java.stdout, selectors.EVENT_READ)
        while sys.stdin not in [key.fileobj for key, _ in waiting.select()]:
            # Not by a buffered reader, which could hold a line while select waits for more.
            if not (arrived := os.read(java.stdout.fileno(), 65536)):
                raise MessagesMissing("the consumer ended by itself")
            *lines, text = (text + arrived).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    java.kill()


def _output(tool: str, *arguments: object) -> str:
    """The output of a tool. Raises MessagesMissing, with its last line, if it failed."""
    ended = subprocess.run(
        _command(tool, *arguments), stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, text=True
    )
    if ended.returncode:
        raise MessagesMissing(_last(ended.stdout))
    return ended.stdout


def _command(tool: str, *arguments: object) -> list[str]:
    return [*sys.argv[1:-1], f"{TOOLS}.{tool}", *map(str, arguments)]


def _last(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "Exception", "Error"))]
    return (errors or lines or ["no output"])[-1]


if __name__ == "__main__":
    main({"produce": produce, "consume": consume, "latency": latency})
