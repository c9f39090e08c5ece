"""Access to the console: who the person is, sessions, CSRF tokens, and headers of responses.

Bound to loopback, the console serves whoever is on this machine. Beyond it, a person needs the
password, or a proxy in front of the console names them in a header. With SASL a person signs in
with their own user, and the cluster decides what they may do.
"""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barnabas.base.randomness import Random

COOKIE: Final = "barnabas_console"
LOCAL: Final = "local"
_SESSIONS: Final = 1_000
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
        " connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none';"
        " frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


def is_loopback(host: str) -> bool:
    """True for addresses that only this machine reaches."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(slots=True)
class Session:
    """One browser: the person, messages to show once, and the user of the cluster, if any."""

    id: str
    person: str | None = None
    notices: list[tuple[str, str]] = field(default_factory=list)
    cluster: Any = None


class Sessions:
    """The browsers that this console knows.

    Beyond a thousand the oldest is forgotten, those in which nobody signed in before the others:
    requests without a password end no other session.
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self._secret = random.uuid().bytes + random.uuid().bytes
        self._sessions: dict[str, Session] = {}

    def find(self, cookies: Mapping[str, str]) -> Session | None:
        return self._sessions.get(cookies.get(COOKIE, ""))

    def begin(self) -> Session:
        if len(self._sessions) >= _SESSIONS:
            unused = (each for each in self._sessions.values() if each.person is None)
            self.end(next(unused, None) or next(iter(self._sessions.values())))
        session = Session(self._random.uuid().hex + self._random.uuid().hex)
        self._sessions[session.id] = session
        return session

    def end(self, session: Session) -> None:
        self._sessions.pop(session.id, None)

    def token(self, session: Session) -> str:
        """The CSRF token of this browser's forms."""
        return hmac.new(self._secret, session.id.encode(), sha256).hexdigest()

    def is_token(self, session: Session, given: str) -> bool:
        return hmac.compare_digest(self.token(session).encode(), given.encode())


def is_same(given: str, password: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(), password.encode())


def is_own_origin(request: Request) -> bool:
    """False if another site made the browser send this request."""
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    host = request.headers.get("x-forwarded-host") or request.headers.get("host", "")
    return origin in (None, "null") or urlsplit(origin or "").netloc == host


class Guard:
    """Adds the headers of every response, and refuses names of this host that are not its own.

    A page of another site that resolves its name to 127.0.0.1 would read the cluster otherwise.
    """

    def __init__(self, app: ASGIApp, *, only_loopback: bool) -> None:
        self._app = app
        self._only_loopback = only_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = urlsplit(f"//{Headers(scope=scope).get('host', '')}").hostname or ""
        if self._only_loopback and not is_loopback(host):
            refusal = PlainTextResponse(
                f"This console serves loopback only, not {host}. Open it by 127.0.0.1, or start it"
                " with --user-header behind a proxy.\n",
                421,
                headers=HEADERS,
            )
            await refusal(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)
