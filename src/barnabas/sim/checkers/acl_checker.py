"""The checker of rights: revoked ones end when brokers have the notification."""

from collections.abc import Callable
from typing import Final

# Longer than a notification takes to reach a broker that has its connection to the tree.
NOTIFIED_WITHIN_S: Final = 2.0


class RightsChecker:
    """The rights of one client, and the requests that were served under them. Watches ACL-1."""

    def __init__(self, on_broken: Callable[[str], None]) -> None:
        self._on_broken = on_broken
        self._revoked_at: float | None = None  # None while the client may have the right
        self.served = 0
        self.refused = 0

    def on_revoked(self, now: float) -> None:
        """A broker has acknowledged that the right is revoked."""
        self._revoked_at = now

    def on_grant(self) -> None:
        """The right is about to be given back."""
        self._revoked_at = None

    def on_refused(self) -> None:
        self.refused += 1

    def on_served(self, what: str, began: float) -> None:
        """A request that was sent at `began` was served."""
        self.served += 1
        revoked = self._revoked_at
        if revoked is not None and began > revoked + NOTIFIED_WITHIN_S:
            self._on_broken(
                "ACL-1 no request is served under rights that were revoked longer ago than a"
                f" notification takes: {what} sent {began - revoked:.1f} s after it"
            )
