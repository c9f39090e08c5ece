"""A request for a page: the person, the cluster as they may see it, and the response."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from barnabas.console.cluster.console_client import ClusterFailed, Unreachable
from barnabas.console.console_state import ClusterHandle, ConsoleState
from barnabas.console.web.access import LOCAL, Session, is_loopback
from barnabas.console.web.limits import Crowded
from barnabas.console.web.rendering import relative_root

EVENT_STREAM: Final = "text/event-stream"
LIVE_EVERY_S: Final = 2.0
_DIGITS: Final = 19
_LINE_END: Final = re.compile("\r\n|\r|\n")  # of an event stream: no others
NAVIGATION: Final = (
    ("", "Overview"),
    ("topics", "Topics"),
    ("groups", "Groups"),
    ("cluster", "Cluster"),
    ("transactions", "Transactions"),
    ("security", "Security"),
    ("pipelines", "Pipelines"),
    ("log", "Log"),
    ("simulation", "Simulation"),
)

Context = dict[str, Any]


def parse_integer(text: str) -> int | None:
    """The integer that a person typed; None if it is none, or beyond 64 bits."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _DIGITS):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class SignInNeeded(Exception):
    """The person must sign in before this page."""


class Page:
    """One request, with what all pages need."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.state: ConsoleState = request.app.state.console
        found = self.state.sessions.find(request.cookies)
        self.session: Session = found or self.state.sessions.begin()
        self.is_new_session = found is None
        self.root = relative_root(request.scope["path"])

    @property
    def person(self) -> str:
        header = self.state.options.user_header
        if header is not None:
            return self.request.headers.get(header, "") if self._is_of_proxy else ""
        return self.session.person or LOCAL

    @property
    def _is_of_proxy(self) -> bool:
        """True if the request comes from a proxy that is believed, not from its client directly."""
        peer = self.request.client
        return peer is not None and (
            is_loopback(peer.host) or peer.host in self.state.options.proxies
        )

    @property
    def is_known(self) -> bool:
        """True if the person may see the console."""
        options = self.state.options
        if options.user_header is not None:
            return bool(self.person)
        if options.sasl_mechanism is not None:
            return self.session.cluster is not None
        return options.password is None or self.session.person is not None

    @property
    def cluster(self) -> ClusterHandle:
        """Raises SignInNeeded"""
        if not self.is_known:
            raise SignInNeeded
        handle: ClusterHandle = self.session.cluster or self.state.cluster
        return handle

    @property
    def may_write(self) -> bool:
        return self.state.options.write

    def argument(self, name: str, default: str = "") -> str:
        return self.request.query_params.get(name, default).strip()

    def integer(self, name: str, default: int, least: int = 0, most: int = 2**62) -> int:
        """An integer of the query, within bounds; the default if it is none."""
        found = parse_integer(self.argument(name))
        return default if found is None else min(most, max(least, found))

    def url(self, path: str) -> str:
        """A link within the console, relative to this page."""
        return f"{self.root}{path}" if path else self.root

    def context(self, given: Mapping[str, Any]) -> Context:
        path = self.request.scope["path"].strip("/")
        here = path.partition("/")[0]
        return {
            "root": self.root,
            "here": {"group": "groups", "audit": "cluster"}.get(here, here),
            "navigation": NAVIGATION,
            "person": self.person,
            "is_known": self.is_known,
            # With sign-in the cluster may hide topics and groups from the person.
            "sees_part": self.session.cluster is not None,
            "may_write": self.may_write,
            "can_sign_out": self.session.person is not None,
            "csrf": self.state.sessions.token(self.session),
            "bootstrap": self.state.options.bootstrap,
            "notices": [],
            "failure": None,
            "is_absent": False,
            "retries": False,
            "path": path,
            **given,
        }

    def render(self, template: str, given: Mapping[str, Any], status: int = 200) -> Response:
        context = self.context(given)
        context["notices"], self.session.notices = self.session.notices, []
        html = self.state.templates.page(template, context)
        return self.with_cookie(HTMLResponse(html, status))

    def redirect(self, path: str) -> Response:
        return self.with_cookie(RedirectResponse(self.url(path), 303))

    def with_cookie(self, response: Response) -> Response:
        """Lax, not strict: a link from elsewhere would arrive without the person's session."""
        if self.is_new_session:
            forwarded = self.request.headers.get("x-forwarded-proto") if self._is_of_proxy else None
            is_https = (forwarded or self.request.url.scheme) == "https"
            name = self.state.sessions.cookie
            response.set_cookie(
                name, self.session.id, httponly=True, samesite="lax", secure=is_https
            )
        return response

    def signed_in(self, person: str, cluster: ClusterHandle | None = None) -> None:
        """A new session: the id of the former one signs nobody in."""
        self.state.sessions.end(self.session)
        self.session, self.is_new_session = self.state.sessions.begin(), True
        self.state.sessions.sign_in(self.session, person, cluster)

    def stream(self, events: AsyncIterator[str]) -> Response:
        return self.with_cookie(StreamingResponse(events, media_type=EVENT_STREAM))

    def block(self, template: str, given: Mapping[str, Any]) -> str:
        return self.state.templates.live(template, self.context(given))


Gather = Callable[[Page], Awaitable[Context]]


def live_page(path: str, template: str, gather: Gather, every_s: float = LIVE_EVERY_S) -> Route:
    """A page whose block `live` is sent again, over server-sent events, when it changes."""

    async def endpoint(request: Request) -> Response:
        page = Page(request)
        if EVENT_STREAM in request.headers.get("accept", ""):
            return page.stream(_updates(page, template, gather, every_s))
        if not page.is_known:
            return sign_in_first(page)
        return page.render(template, await gathered(page, gather))

    return Route(path, endpoint, methods=["GET"])


async def gathered(page: Page, gather: Gather) -> Context:
    """The page's context; a cluster that does not answer becomes part of the page."""
    try:
        return await gather(page)
    except ClusterFailed as failure:
        return {"failure": str(failure), "is_absent": isinstance(failure, Unreachable)}


async def _updates(page: Page, template: str, gather: Gather, every_s: float) -> AsyncIterator[str]:
    """The page's live block, whenever it has changed. Ends when the browser goes away.

    `renew` is for a page whose session is gone, with a sign-out or with the console before: it
    must load again to get new forms. `busy` says that too many live views are open.
    """
    if page.is_new_session:
        yield server_sent("renew", "session")
    sent = ""
    try:
        async with page.cluster.watched():
            with page.state.live_views.taken():
                while True:
                    html = page.block(template, await gathered(page, gather))
                    yield ": alive\n\n" if html == sent else server_sent("live", html)
                    sent = html
                    if not await page.state.pause(every_s):
                        return
    except SignInNeeded:  # which a sign-out in another tab leads to
        yield server_sent("renew", "sign-in")
    except Crowded as crowded:
        yield server_sent("busy", str(crowded))


def server_sent(event: str, data: str) -> str:
    """One event of an event stream."""
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(data))
    return f"event: {event}\n{lines}\n"


def sign_in_first(page: Page) -> Response:
    if page.state.options.user_header is not None:
        return page.render(
            "refused.html",
            {
                "title": "Sign-in needed",
                "what": f"The proxy in front of this console did not say who you are:"
                f" the header {page.state.options.user_header} is missing.",
            },
            401,
        )
    request = page.request
    if request.method != "GET":
        return page.redirect("sign-in")
    query = request.url.query
    wanted = request.scope["path"].removeprefix("/") + (query and f"?{query}")
    return page.redirect(f"sign-in?{urlencode({'next': wanted})}" if wanted else "sign-in")
