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

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from barnabas.base.clock import Clock
from barnabas.base.randomness import Random

LOCAL: Final = "local"
_SESSIONS: Final = 1_000
_OF_ONE_USER: Final = 20
_UNUSED_MS: Final = 12 * 3600 * 1000
_PLANS: Final = 20
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
    "cross-origin-resource-policy": "same-origin",
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
    """One browser: the person, messages to show once, and the user of the cluster, if any.

    `plans` are the changes that wait for the person's confirmation, by id.
    """

    id: str
    person: str | None = None
    notices: list[tuple[str, str]] = field(default_factory=list)
    cluster: Any = None
    plans: dict[str, Any] = field(default_factory=dict)
    used_ms: int = 0


class Sessions:
    """The browsers that this console knows.

    A session that is unused for twelve hours ends. Beyond a thousand the one that was used least
    recently ends, those in which nobody signed in before the others: requests without a password
    end no other session.
    """

    def __init__(self, random: Random, clock: Clock, name: str = "") -> None:
        """Browsers send cookies to every port of a host: `name` tells consoles apart."""
        self._random = random
        self._clock = clock
        self.cookie = f"barnabas_console_{sha256(name.encode()).hexdigest()[:12]}"
        self._secret = random.uuid().bytes + random.uuid().bytes
        self._sessions: dict[str, Session] = {}

    def find(self, cookies: Mapping[str, str]) -> Session | None:
        session = self._sessions.pop(cookies.get(self.cookie, ""), None)
        if session is None:
            return None
        self._sessions[session.id] = session  # the last is the one that was used last
        if self._clock.now_ms() - session.used_ms > _UNUSED_MS:
            self.end(session)
            return None
        session.used_ms = self._clock.now_ms()
        return session

    def begin(self) -> Session:
        if len(self._sessions) >= _SESSIONS:
            unused = (each for each in self._sessions.values() if each.person is None)
            self.end(next(unused, None) or next(iter(self._sessions.values())))
        session = Session(self._new_id(), used_ms=self._clock.now_ms())
        self._sessions[session.id] = session
        return session

    def sign_in(self, session: Session, person: str, cluster: Any = None) -> None:
        """Of one user of the cluster the oldest sessions end: each has connections of its own."""
        session.person, session.cluster = person, cluster
        if cluster is not None:
            own = [each for each in self._sessions.values() if each.person == person]
            for each in own[:-_OF_ONE_USER]:
                self.end(each)

    def end(self, session: Session) -> None:
        """Nobody is signed in any more, in other tabs either."""
        self._sessions.pop(session.id, None)
        if session.cluster is not None:
            session.cluster.close()
        session.person = session.cluster = None
        session.plans.clear()

    def close(self) -> None:
        for session in list(self._sessions.values()):
            self.end(session)

    def keep(self, session: Session, plan: Any) -> str:
        """The id by which the person confirms this change."""
        if len(session.plans) >= _PLANS:
            session.plans.pop(next(iter(session.plans)))
        plan_id = self._new_id()
        session.plans[plan_id] = plan
        return plan_id

    def _new_id(self) -> str:
        return self._random.uuid().hex + self._random.uuid().hex

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
    return origin is None or origin.partition("://")[2] == host


def is_embedded(headers: Headers) -> bool:
    """True for what a page of another site loads, rather than a link that a person follows."""
    site, mode = headers.get("sec-fetch-site", "none"), headers.get("sec-fetch-mode", "navigate")
    return site in ("cross-site", "same-site") and mode != "navigate"


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
        given = Headers(scope=scope)
        if is_embedded(given):
            refusal = PlainTextResponse("Another site asked for this.\n", 403, headers=HEADERS)
            await refusal(scope, receive, send)
            return
        host = given.get("host", "")
        host = host.rpartition(":")[0] if host[-1:] != "]" and ":" in host else host
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
