"""Drivers that read together: a common start, and their combined progress."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path

import pytest

from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.clusters.group_members import GroupFailed
from barnabas.bench.compare import client_driver, client_members, group_gate
from barnabas.bench.compare.client_driver import ClientFailed, Driver, run
from barnabas.bench.compare.client_members import Readers, messages_at
from barnabas.bench.compare.driver_python import librdkafka
from barnabas.bench.compare.group_gate import begin_together, has_consumer_groups
from barnabas.bench.server_processes import Server, broker
from tests.bench.driver_contract import available, produce

READS = """
import sys
print("a word")
print([1.0, 10], flush=True)
print([2.0, 30], flush=True)
sys.stdin.readline()
print('{"messages": 30, "bytes": 3000}')
"""
FAILS = "import sys; sys.exit('no such topic')"


def program(code: str) -> Driver:
    return Driver("a client", (sys.executable, "-c", code))


def read(code: str, messages: int) -> list[tuple[float, int]]:
    """The progress of one member with this program."""
    with Readers(program(code), {}).running() as readers:
        readers.start(1)
        return readers.wait_for(messages)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with broker(tmp_path_factory.mktemp("gate"), "group.initial.rebalance.delay.ms=0") as running:
        yield running


def test_the_progress_of_members_is_added_up_in_the_order_of_time() -> None:
    first, second = [(1.0, 10), (3.0, 30)], [(2.0, 5), (4.0, 6)]
    together = [(1.0, 10), (2.0, 15), (3.0, 35), (4.0, 36)]
    assert messages_at([first, second]) == together
    assert messages_at([[], first]) == first


def test_members_are_stopped_when_they_have_enough_messages_together() -> None:
    with Readers(program(READS), {}).running() as readers:
        readers.start(2)
        progress = readers.wait_for(60)
    assert progress[-1] == (2.0, 60)


def test_the_error_of_a_failing_member_is_reported() -> None:
    with pytest.raises(ClientFailed, match="a client exited with code 1: no such topic"):
        read(FAILS, 1)


def test_stalled_members_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_members, "STALLS_FOR_S", 0.1)
    with pytest.raises(ClientFailed, match=r"a client: members had \[\d+\] of 31"):
        read(READS, 31)


def test_members_start_together_even_if_one_is_late(server: Server) -> None:
    driver = available(librdkafka())
    create_topic(server.bootstrap, "together", 3)
    produce(driver, server, "together")
    spec = {"bootstrap": server.bootstrap, "topic": "together", "group": "together"}
    with Readers(driver, {**spec, "protocol": "classic"}).running() as readers:
        begin_together(server.bootstrap, "together", 3, lambda: readers.start(3))
        readers.wait_for(3000)
        assert [member.messages for member in readers._members] == [1000] * 3


def test_a_group_without_members_is_a_failure(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_gate, "JOINED_WITHIN_S", 0.0)
    started = ExitStack()
    with pytest.raises(GroupFailed, match="0 of 2 clients joined the group"):
        begin_together(server.bootstrap, "nobody", 2, started.close)


def test_barnabas_has_the_groups_of_kip_848(server: Server) -> None:
    assert has_consumer_groups(server.bootstrap)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("print('{\"seconds\": 1}'); raise SystemExit(3)", "exited with code 3"),
        ("print('[1, 2]')", r"printed no result, but '\[1, 2\]'"),
        ("print('words')", "printed no result, but 'words'"),
        ("pass", "printed no result, but ''"),
    ],
)
def test_a_program_that_breaks_the_contract_is_a_failure(code: str, said: str) -> None:
    with pytest.raises(ClientFailed, match=said):
        run(program(code), {})


def test_the_last_line_is_the_answer() -> None:
    assert run(program("print('words'); print('{\"a\": 1}'); print()"), {})["a"] == 1


def test_a_driver_that_does_not_end_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_driver, "ENDS_WITHIN_S", 0.1)
    with pytest.raises(ClientFailed, match="a client did not end within 0 s, with 0 s of CPU time"):
        run(program("import threading; threading.Event().wait()"), {})


def test_a_client_program_that_spins_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_driver, "ENDS_WITHIN_S", 2.0)
    with pytest.raises(ClientFailed, match=r"did not end within 2 s, with [12] s of CPU time"):
        run(program("while True: pass"), {})


def test_a_client_that_may_spin_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(client_driver, "SPINS_AFTER_S", 2.0)
    once = f"""
import os
try:
    os.mkdir({str(tmp_path / "second")!r})
except FileExistsError:
    print('{{"a": 1}}')
else:
    while True: pass
"""
    driver = replace(program(once), may_spin=True)
    found = run(driver, {})
    assert found["a"] == 1
    assert found["cpu_s"] < 1.0
    assert len(driver.spun) == 1


def test_a_group_of_which_one_spins_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_members, "SPINS_AFTER_S", 2.0)
    driver = replace(program(READS), may_spin=True)
    wanted = chain([31], repeat(30))

    def together() -> int:
        with Readers(driver, {}).running() as readers:
            readers.start(1)
            return readers.wait_for(next(wanted))[-1][1]

    assert client_driver.again_if_stuck(driver, together) == 30
    assert driver.spun
