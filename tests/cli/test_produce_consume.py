"""`produce` and `consume` against a broker, compared with kcat."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Barnabas, Send, spawn
from tests.support.broker import BrokerProcess

NOON = 1769860800000
QUICK = ("-X", "enable.idempotence=false")
FORMAT = "%t [%p] %o: %k/%K=%s/%S %T {%h}\\n"


def offsets(barnabas: Barnabas, topic: str, *arguments: object) -> list[int]:
    ended = barnabas("consume", topic, "-p", 0, "-f", "%o\\n", *arguments)
    assert (ended.code, ended.err) == (0, "")
    return [int(line) for line in ended.lines]


def test_messages_come_back_in_order(topic: str, barnabas: Barnabas) -> None:
    sent = barnabas("produce", topic, *range(100), "-p", 1)
    assert (sent.code, sent.out) == (0, b"")
    assert sent.err == f"100 messages delivered to {topic}\n"
    assert barnabas("consume", topic).lines == [str(i) for i in range(100)]


def test_lines_of_stdin_are_sent_as_they_arrive(topic: str, broker: BrokerProcess) -> None:
    with (
        spawn("consume", topic, "--follow", "-K", "|", broker=broker) as consumer,
        spawn("produce", topic, "-K", ":", broker=broker) as producer,
    ):
        assert producer.stdin is not None
        assert consumer.stdout is not None
        for line in (b"k:first", b"k:second", b"no key"):
            producer.stdin.write(line + b"\n")
            key, _, value = line.rpartition(b":")
            assert consumer.stdout.readline() == key + b"|" + value + b"\n"
        _, report = producer.communicate()
        assert report == f"3 messages delivered to {topic}\n".encode()
        consumer.send_signal(signal.SIGINT)
        assert (producer.returncode, consumer.wait()) == (0, 130)


def test_ctrl_c_delivers_the_lines_read_and_exits_with_130(
    topic: str, broker: BrokerProcess, barnabas: Barnabas
) -> None:
    with spawn("produce", topic, broker=broker) as producer:
        assert producer.stdin is not None
        producer.stdin.write(b"read\nnot yet")
        while barnabas("consume", topic).lines != ["read"]:
            pass
        producer.send_signal(signal.SIGINT)
        assert producer.wait() == 130
    assert barnabas("consume", topic).lines == ["read"]


def test_tombstones_headers_keys_and_timestamps_are_delivered(
    topic: str, barnabas: Barnabas, send: Send
) -> None:
    send(topic, "k:", ":v", "-K", ":", "-Z", "-p", 0)
    send(topic, "v", "-k", "fixed", "-H", "a=1", "-H", "a=2=3", "-p", 0, "-t", "2026-01-31T12:00Z")
    ended = barnabas("consume", topic, "-J")
    first, second, third = (json.loads(line) for line in ended.lines)
    assert (first["key"], first["payload"]) == ("k", None)
    assert (second["key"], second["payload"]) == (None, "v")
    assert (third["key"], third["headers"]) == ("fixed", ["a", "1", "a", "2=3"])
    assert third["ts"] == 1769860800000
    printed = barnabas("consume", topic, "-o", 2, "-p", 0, "--print", "key,headers,offset")
    assert printed.lines == ["fixed\ta=1,a=2=3\t2\tv"]
    printed = barnabas("consume", topic, "-o", 2, "-p", 0, "--print", "key,value")
    assert printed.lines == ["fixed\tv"]
    printed = barnabas("consume", topic, "-o", 2, "-p", 0, "--print", "time,timestamp")
    assert printed.lines == [f"2026-01-31T12:00:00.000Z\t{NOON}\tv"]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_delivered(codec: str, barnabas: Barnabas, send: Send) -> None:
    name = f"codec-{codec}"
    barnabas("topics", "create", name)
    values = [f"{i} " + "a" * 100 for i in range(50)]
    send(name, *values, "-z", codec)
    assert barnabas("consume", name).lines == values


def test_a_file_is_sent_as_lines_or_as_one_message(
    topic: str, barnabas: Barnabas, send: Send, tmp_path: Path
) -> None:
    data = bytes(range(256)) * 4
    file = tmp_path / "bytes"
    file.write_bytes(data)
    send(topic, "--whole", "--file", file, "-p", 0)
    assert barnabas("consume", topic, "-p", 0, "-D", "").out == data
    file.write_bytes(b"a\0b\0c")
    send(topic, "-D", "\\0", "--file", file, "-p", 1)
    assert barnabas("consume", topic, "-p", 1).lines == ["a", "b", "c"]
    missing = barnabas("produce", topic, "--file", tmp_path / "nothing")
    assert missing.code == 1
    assert missing.err == f"barnabas: {tmp_path / 'nothing'}: No such file or directory\n"


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(values=st.lists(st.binary(min_size=1), min_size=1, max_size=20))
def test_any_bytes_are_consumed_as_produced(
    values: list[bytes], topic: str, barnabas: Barnabas, tmp_path: Path
) -> None:
    file = tmp_path / "lengths"
    delimiter = b"--" + max(values, key=len) + b"--"
    file.write_bytes(delimiter.join(values) + delimiter)
    written = "".join(f"\\x{byte:02x}" for byte in delimiter)
    sent = barnabas("produce", topic, "-D", written, "-f", file, "-p", 0, "--json", "-q", *QUICK)
    (partition,) = json.loads(sent.out)["partitions"]
    ended = barnabas("consume", topic, "-p", 0, "-o", partition["first_offset"], "-D", written)
    assert ended.out == file.read_bytes()


def test_consuming_starts_and_stops_at_the_given_positions(
    topic: str, barnabas: Barnabas, send: Send
) -> None:
    for i in range(10):
        send(topic, "x", "-p", 0, "-t", NOON + i)
    assert offsets(barnabas, topic) == list(range(10))
    assert offsets(barnabas, topic, "-o", "end") == []
    assert offsets(barnabas, topic, "-o", 7) == [7, 8, 9]
    assert offsets(barnabas, topic, "-o", 10) == []
    assert offsets(barnabas, topic, "-o", -3) == [7, 8, 9]
    assert offsets(barnabas, topic, "-o", -99, "-c", 2) == [0, 1]
    assert offsets(barnabas, topic, "-o", f"s@{NOON + 4}", "-o", f"e@{NOON + 7}") == [4, 5, 6]
    assert offsets(barnabas, topic, "-o", f"s@{NOON + 5000}") == []
    beyond = barnabas("consume", topic, "-p", 0, "-o", 11)
    assert beyond.code == 1
    assert f"offset 11 is out of range: {topic} [0] has offsets 0 to 10" in beyond.err
    absent = barnabas("consume", topic, "-p", 5)
    assert (absent.code, "has no partition 5, only 0 to 1" in absent.err) == (1, True)


def test_follow_waits_until_the_count_is_reached(
    topic: str, barnabas: Barnabas, send: Send, broker: BrokerProcess
) -> None:
    with spawn("consume", topic, "--follow", "--count", 2, broker=broker) as consumer:
        send(topic, "one", "-p", 0)
        send(topic, "two", "-p", 0)
        out, err = consumer.communicate()
        assert (consumer.returncode, out, err) == (0, b"one\ntwo\n", b"")


def test_an_undelivered_message_is_a_failure(topic: str, barnabas: Barnabas) -> None:
    barnabas("configs", "alter", "--topic", topic, "--set", "max.message.bytes=500")
    ended = barnabas("produce", topic, "small", "x" * 1000, "-p", 0, "-X", "linger.ms=0")
    assert ended.code == 1
    assert "failed:" in ended.err
    assert ended.err.count("\n") == 1
    larger = barnabas("produce", topic, "x" * 3000, "-X", "message.max.bytes=2000")
    assert (larger.code, "message 1 of 3000 bytes is too large" in larger.err) == (1, True)


@pytest.mark.parametrize(
    "arguments", [["no key"], ["-K", ":", "k:v", "no key"]], ids=["all", "one"]
)
def test_a_missing_key_for_a_compacted_topic_is_reported_with_a_remedy(
    arguments: list[str], barnabas: Barnabas, request: pytest.FixtureRequest
) -> None:
    name = f"compacted-{request.node.callspec.id}"
    barnabas("topics", "create", name, "-c", "cleanup.policy=compact")
    ended = barnabas("produce", name, *arguments)
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert f"topic {name} is compacted: every message needs a key (-k or -K)" in ended.err


def test_a_batch_corrupted_on_the_brokers_disk_is_an_error(
    fresh_broker: Callable[..., BrokerProcess], offline: Barnabas
) -> None:
    broker = fresh_broker()
    on = ("-b", broker.bootstrap)
    offline("topics", "create", "t", *on)
    for value in ("sound", "damaged"):
        assert offline("produce", "t", value, *QUICK, *on).code == 0
    with (broker.data / "t-0" / "00000000000000000000.log").open("r+b") as file:
        file.seek(file.read().index(b"damaged"))
        file.write(b"changed")
    ended = offline("consume", "t", *on)
    assert (ended.code, ended.lines, ended.err.count("\n")) == (1, ["sound"], 1)
    assert "barnabas: t [0]: " in ended.err
    assert "CRC" in ended.err


def write_for_ever(stream: IO[bytes]) -> None:
    while True:
        stream.write(b"a line\n")


def test_a_killed_broker_ends_produce_with_endless_input(
    fresh_broker: Callable[..., BrokerProcess], offline: Barnabas
) -> None:
    broker = fresh_broker()
    offline("topics", "create", "t", "-b", broker.bootstrap)
    with spawn("produce", "t", "-X", "message.timeout.ms=500", *QUICK, broker=broker) as producer:
        assert producer.stdin is not None
        assert producer.stderr is not None
        producer.stdin.write(b"a line\n")
        while not offline("consume", "t", "-b", broker.bootstrap).out:
            pass
        broker.kill()
        with pytest.raises(BrokenPipeError):
            write_for_ever(producer.stdin)
        assert b"1 message delivered to t, " in producer.stderr.read()
        assert producer.wait() == 1


def test_the_broker_creates_the_topic_with_create(barnabas: Barnabas) -> None:
    assert barnabas("produce", "made-by-the-broker", "x", "--create").code == 0
    assert barnabas("consume", "made-by-the-broker").lines == ["x"]


@pytest.mark.skipif(not shutil.which("kcat"), reason="kcat is not installed")
def test_formats_and_json_print_what_kcat_prints(
    topic: str, barnabas: Barnabas, send: Send, broker: BrokerProcess
) -> None:
    send(topic, "a:1", "b:", ":3", "4", "-K", ":", "-Z", "-p", 0)
    send(topic, "5", "-H", "x=1", "-H", "y=", "-p", 0)
    kcat = ["kcat", "-b", broker.bootstrap, "-C", "-t", topic, "-p", "0", "-e", "-q"]

    def kcat_prints(*arguments: str) -> bytes:
        done = subprocess.run([*kcat, *arguments], capture_output=True, check=True, env=os.environ)
        return done.stdout

    for arguments in (["-f", FORMAT], ["-f", FORMAT, "-Z"], ["-o", "-2"], ["-K", "|", "-Z"]):
        ended = barnabas("consume", topic, "-p", 0, *arguments)
        assert ended.out == kcat_prints(*arguments)
    ours = [json.loads(line) for line in barnabas("consume", topic, "-p", 0, "-J").lines]
    theirs = [json.loads(line) for line in kcat_prints("-J").splitlines()]
    assert ours == [{k: v for k, v in each.items() if k != "broker"} for each in theirs]
