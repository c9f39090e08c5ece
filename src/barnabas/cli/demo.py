"""`barnabas demo`: a broker's life in about ten seconds, each claim checked while it is told."""

import tempfile
from pathlib import Path


def demo() -> None:
    """See a broker at work: topics, codecs, time travel, retries, and a kill -9 that loses nothing.

    Takes about ten seconds. Starts a broker of its own on a free port, in a temporary folder;
    leaves nothing behind.
    Ends with 1 if anything does not hold that is told.
    """
    from barnabas.cli.demo_broker import BrokerProcess
    from barnabas.cli.demo_story import Story

    with tempfile.TemporaryDirectory(prefix="barnabas-demo-") as folder:
        broker = BrokerProcess(Path(folder) / "data")
        try:
            Story(broker).tell()
        finally:
            broker.stop()
