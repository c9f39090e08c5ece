"""The requests that one client repeats: by their first bytes, what serves them."""

import struct
from typing import Final

from barnabas.server.metrics.request_statistics import ApiStatistics, RequestStatistics
from barnabas.server.requests.fast_path import Shortcut
from barnabas.wire.apis import ApiKey

MOST_SHORTCUTS: Final = 1_000
# Of all connections together: some 200 MB, if all are as long as they may be. Beyond, a connection
# has a few.
MANY_SHORTCUTS: Final = 100_000
FEW_SHORTCUTS: Final = 8
# Requests begin with names, which are short; one that tags make longer is not remembered.
LONGEST_SHORTCUT: Final = 1_024
_HEAD = struct.Struct(">ii")  # API and version, correlation id


class KnownRequests:
    """All are of one API, where they are counted: no client sends two on one connection at once."""

    __slots__ = ("_statistics", "api", "is_produce", "shortcuts", "size")

    def __init__(self, statistics: RequestStatistics) -> None:
        self._statistics = statistics
        self.api: ApiStatistics = statistics.before_any
        self.is_produce = False
        # By the bytes after the correlation id: API and version, and what serves such a frame.
        self.shortcuts: dict[bytes, tuple[int, Shortcut]] = {}
        self.size = 0  # of the part of a frame that has to be known; 0 while none is

    def remember(self, frame: memoryview, size: int, shortcut: Shortcut) -> None:
        """Serve by `shortcut` the frames that begin like this one, for `size` bytes.

        Only the correlation id, the second four bytes, may differ.
        """
        if size > LONGEST_SHORTCUT:
            return
        api_and_version, _ = _HEAD.unpack_from(frame)
        api = self._statistics.by_api[api_and_version >> 16]
        statistics = self._statistics
        is_many = statistics.shortcuts >= MANY_SHORTCUTS
        most = FEW_SHORTCUTS if is_many else MOST_SHORTCUTS
        if len(self.shortcuts) >= most or api is not self.api:
            self.forget()
        self.size = size
        self.api = api
        self.is_produce = api_and_version >> 16 == ApiKey.PRODUCE
        before = len(self.shortcuts)
        self.shortcuts[bytes(frame[8:size])] = (api_and_version, shortcut)
        statistics.shortcuts += len(self.shortcuts) - before

    def forget(self) -> None:
        """Serve every frame the long way again."""
        self._statistics.shortcuts -= len(self.shortcuts)
        self.shortcuts.clear()
        self.size = 0
