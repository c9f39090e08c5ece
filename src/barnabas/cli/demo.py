"""`barnabas demo`: a broker's life in half a minute, each claim checked while it is told."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType


def demo() -> None:
    """See a broker at work: topics, codecs, time travel, retries, and a kill -9 that loses nothing.

    Starts a broker of its own on a free port, in a temporary folder; leaves nothing behind.
    Ends with 1 if anything does not hold that is told.
    """
    from barnabas.cli.demo_broker import BrokerProcess
    from barnabas.cli.demo_story import Story

    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder:
        broker = BrokerProcess(Path(folder) / "data")
        try:
            Story(broker).tell()
        finally:
            broker.stop()


def _leave(number: int, frame: "FrameType | None") -> None:
    """End as by an exception, so that the broker is stopped and its folder removed."""
    sys.exit(128 + number)
