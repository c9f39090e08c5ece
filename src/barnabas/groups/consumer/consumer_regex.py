"""Regular expressions that members subscribe with: RE2, as in Kafka, which uses RE2/J.

A client's expression runs in the broker. RE2 never backtracks: it matches in time linear in the
topic's name, and refuses expressions that would be too large.
"""

from functools import lru_cache
from typing import Final

# The memory that RE2 may use for one expression: program and cached states.
MAX_MEMORY: Final = 1024 * 1024


class TopicRegex:
    """Matches whole names."""

    def __init__(self, text: str) -> None:
        """Raises  ValueError, if RE2 does not accept the expression."""
        import re2  # not before: few groups subscribe with an expression

        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        options.max_mem = MAX_MEMORY
        try:
            self._full_match = re2.compile(text.encode(), options).fullmatch
        except re2.error as refused:
            raise ValueError(refused.args[0].decode(errors="replace")) from refused

    @staticmethod
    @lru_cache(maxsize=1_000)
    def of(text: str) -> "TopicRegex":
        return TopicRegex(text)

    def matches(self, topic: str) -> bool:
        return self._full_match(topic.encode()) is not None
