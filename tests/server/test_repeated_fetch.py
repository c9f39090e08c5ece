"""A fetch that begins like one before: what is not as usual takes the long way."""

from pathlib import Path
from types import ModuleType

import pytest

from barnabas.server.requests.frame_run import FrameRun
from barnabas.wire.fetch.single_answer import SingleAnswer
from barnabas.wire.fetch.single_fetch import SingleFetch
from tests.log.batches import append, open_partition
from tests.replication.leading import sole_leader
from tests.support.twins import both

OFFSET_AT = 10
FRAME = bytes(OFFSET_AT + 8 + 12)


def run_of(frame: bytes) -> FrameRun:
    run = FrameRun()
    run.view = memoryview(len(frame).to_bytes(4, "big") + frame)
    run.start, run.end, run.most, run.known = 0, len(run.view), 1_000, OFFSET_AT
    run.served = run.last_size = run.queued = 0
    run.out = []
    return run


@pytest.mark.parametrize("twin", both("barnabas.server.requests.repeated_fetch"))
def test_a_frame_of_another_length_takes_the_long_way(twin: ModuleType, tmp_path: Path) -> None:
    log = open_partition(tmp_path)
    append(log)
    leader = sole_leader(log)
    single = SingleFetch("orders", 0, 0, 1_000, 1_000, 1, -1, False, OFFSET_AT)
    ready = SingleAnswer(b"", 24, b"", b"")
    again = twin.RepeatedFetch(
        single, ready, memoryview(FRAME), lambda *_: leader, lambda _: None, 1_000
    )
    served = []
    for length in range(OFFSET_AT, len(FRAME) + 5):
        run = run_of(bytes(length))
        assert again.serve_run(run) is None
        served += [length] * run.served
    assert served == [len(FRAME)]
