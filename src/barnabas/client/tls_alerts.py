"""The alert of a failed TLS handshake, which says why the client is refused.

The event loop closes a connection as soon as its handshake fails, and the alert stays in the
buffer. The client takes that for a broken network and connects again and again.
"""

import ssl
from typing import Any, Final

# Reasons of OpenSSL for bytes that are not TLS: there is no alert to send.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST"})


class AlertingObject(ssl.SSLObject):
    """A server's side of TLS. A failed handshake asks for more input first, so that the loop sends
    the alert; it fails when the client answers, closes, or takes too long. A client that does not
    speak TLS is refused at once.
    """

    _failure: ssl.SSLError | None = None
    _sslobj: Any

    # Without a Python function around each: the loop calls them for every record, and a client
    # may send two records a message.
    @property
    def read(self) -> Any:
        return self._sslobj.read

    @property
    def write(self) -> Any:
        return self._sslobj.write

    @property
    def pending(self) -> Any:
        return self._sslobj.pending

    @staticmethod
    def on_failure(reason: str) -> None:
        """Called with the reason of a failed handshake; a listener's class reports it."""

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            if failure.reason in _NOT_TLS:
                raise
            self._failure = failure
            self.on_failure(failure.reason or str(failure))
            raise ssl.SSLWantReadError from None
