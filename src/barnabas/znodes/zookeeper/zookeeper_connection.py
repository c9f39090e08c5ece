"""A kazoo client for exactly one ZooKeeper session."""

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from barnabas.znodes.tree import ConnectionLoss
from barnabas.znodes.zookeeper.kazoo_thread import Mailbox, MailboxHandler, Reply
from barnabas.znodes.zookeeper.zookeeper_security import OPEN, ZooKeeperSecurity

# kazoo warns about every attempt to reconnect. The session logs each change of state instead.
_kazoo_log: Final = logging.getLogger("barnabas.zookeeper.kazoo")
_kazoo_log.setLevel(logging.ERROR)

_RECONNECT: Final = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


class ZooKeeperConnection:
    """Reconnects until its session expires; `on_state` is called on the loop."""

    def __init__(
        self,
        hosts: str,
        session_timeout_ms: int,
        mailbox: Mailbox,
        on_state: Callable[["ZooKeeperConnection", str], None],
        security: ZooKeeperSecurity = OPEN,
    ) -> None:
        self._mailbox = mailbox
        self._on_state = on_state
        self._handler = MailboxHandler(mailbox, security.tls)
        untyped_client: Any = KazooClient
        untyped_retry: Any = KazooRetry
        self.client = untyped_client(
            hosts,
            timeout=session_timeout_ms / 1000,
            handler=self._handler,
            connection_retry=untyped_retry(**_RECONNECT, sleep_func=self._handler.sleep_func),
            logger=_kazoo_log,
            sasl_options=security.sasl_options(),
        )
        self.client.add_listener(self._on_kazoo_state)
        self.session_id = 0
        self.password = b""
        # Set once the session began, or is closed before that.
        self.settled = asyncio.Event()

    def ask(self, path: str, request: Callable[[], Reply]) -> Reply:
        """Queue a request. Raises ConnectionLoss, nothing queued, if not connected."""
        with self._handler.asking:
            if self.client.connected:
                return request()
        # kazoo knows that the connection is lost; the session's state must agree.
        self._on_state(self, KazooState.SUSPENDED)
        raise ConnectionLoss(path, "not connected")

    def call(self, request: Any) -> Reply:
        """Send a request that kazoo has no method for; use it within `ask`."""
        reply = self._handler.async_result()
        self.client._call(request, reply)
        return reply

    def end(self, *, gently: bool) -> "asyncio.Future[None]":
        """Stop kazoo on a thread, as it blocks; `gently` closes the session at the server."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not gently:
            self._handler.end()
        threading.Thread(target=self._stop, args=(ended,), daemon=True).start()
        return ended

    def _stop(self, ended: "asyncio.Future[None]") -> None:
        with suppress(kazoo_errors.WriterNotClosedException):
            self.client.stop()
            self.client.close()
        self._mailbox.post(partial(ended.set_result, None))

    def _on_kazoo_state(self, state: str) -> None:
        # On kazoo's thread: after this call kazoo would begin another session.
        if state == KazooState.LOST:
            self._handler.end()
        elif state == KazooState.CONNECTED:
            self.session_id, self.password = self.client.client_id
        self._mailbox.post(partial(self._on_state, self, state))
