"""The machine's own delays: seen where they are, and told from a broker's."""

import os
import signal
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.bench import standstill_watch
from barnabas.bench.compare_latency import NEAR_S, apart_from
from barnabas.bench.standstills import Standstills, are_told, watching

MOMENTS = st.integers(0, 60)
SPANS = st.tuples(MOMENTS, MOMENTS).map(lambda two: (float(min(two)), float(max(two))))


@pytest.fixture
def priority() -> None:
    if not are_told():
        pytest.skip("no real-time priority here")


@given(st.lists(SPANS, max_size=8), SPANS)
def test_a_span_is_touched_by_any_standstill_that_it_meets(
    seen: list[tuple[float, float]], asked: tuple[float, float]
) -> None:
    begin, end = asked
    expected = any(first <= end and begin <= last for first, last in seen)
    assert Standstills(seen).touch(begin, end) is expected


def test_whether_a_message_counts_does_not_depend_on_how_long_it_took() -> None:
    standstills = Standstills([(10.0, 10.02)])
    sent = [9.9, 10.0 - 2 * NEAR_S, 10.0 - NEAR_S / 2, 10.01, 10.02 + NEAR_S / 2, 10.1]
    counted = {
        took: [begun for begun, _ in apart_from(standstills, [(at, at + took) for at in sent])]
        for took in (0.0, 0.0001, 0.05, 1.0)
    }
    assert counted == {took: [9.9, 10.0 - 2 * NEAR_S, 10.1] for took in counted}


@pytest.mark.usefixtures("priority")
def test_what_holds_a_processor_up_is_seen_and_nothing_is_left_running() -> None:
    with watching() as watch:
        process = watch.processes[0]
        before = time.perf_counter()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        stopped = time.perf_counter()
        while time.perf_counter() < stopped + 0.05:
            pass
        goes_on = time.perf_counter()
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED)
        while time.perf_counter() < goes_on + 0.02:
            pass
        seen = watch.end()
    assert seen.touch(stopped + 0.01, goes_on - 0.01)
    assert not seen.touch(before - 2.0, before - 1.0)
    assert all(each.returncode == -signal.SIGKILL for each in watch.processes)


@pytest.mark.usefixtures("priority")
def test_who_watches_ends_with_whoever_started_it() -> None:
    script = (
        "import os, subprocess, sys;"
        "watch = subprocess.Popen([sys.executable, '-IS', *sys.argv[1:], str(os.getpid())],"
        " stdout=subprocess.PIPE);"
        "watch.stdout.read(1);"
        "print(watch.pid)"
    )
    processor = min(os.sched_getaffinity(0))
    told = subprocess.run(
        [sys.executable, "-c", script, standstill_watch.__file__, str(processor)],
        capture_output=True,
        text=True,
        check=True,
    )
    deadline = time.monotonic() + 30
    while os.path.exists(f"/proc/{told.stdout.strip()}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
