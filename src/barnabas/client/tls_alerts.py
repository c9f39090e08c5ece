"""The alert of a failed TLS handshake, which tells the client why it is refused.

The event loop closes a connection as soon as its handshake fails, and the alert stays in the
buffer. The client takes that for a broken network and connects again and again.
"""

import logging
import ssl

log = logging.getLogger("barnabas.tls")


class AlertingObject(ssl.SSLObject):
    """A server's side of TLS. A failed handshake asks for more input first, so that the loop sends
    the alert; it fails when the client answers, closes, or takes too long.
    """

    _failure: ssl.SSLError | None = None

    def do_handshake(self) -> None:
        if self._failure is not None:
            raise self._failure
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            self._failure = failure
            log.info("TLS handshake failed: %s", failure.reason or failure)
            raise ssl.SSLWantReadError from None
