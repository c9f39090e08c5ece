"""What a run tells: it hears what brokers log, and leaves the logging as it was."""

import logging

from barnabas.sim.trace import LOGGER, Listener, Story


def test_loggers_are_afterwards_as_they_were() -> None:
    story = Story(lambda: 0.0)
    logger = logging.getLogger(f"{LOGGER}.test_story")
    before = logger.isEnabledFor(logging.INFO)
    with Listener(story, lambda _: None):
        logger.info("heard")
    assert [line.what for line in story.lines] == ["test_story: heard"]
    assert logger.isEnabledFor(logging.INFO) is before
