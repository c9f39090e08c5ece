"""The trace collects the brokers' log, and restores the loggers' levels."""

import logging

from barnabas.sim.world.trace import LOGGER, Trace, TraceHandler


def test_loggers_are_restored() -> None:
    trace = Trace(lambda: 0.0)
    logger = logging.getLogger(f"{LOGGER}.test_trace")
    before = logger.isEnabledFor(logging.INFO)
    with TraceHandler(trace, lambda _: None):
        logger.info("heard")
    assert [line.what for line in trace.lines] == ["test_trace: heard"]
    assert logger.isEnabledFor(logging.INFO) is before
