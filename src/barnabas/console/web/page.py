"""A request for a page: the person, the cluster as they may see it, and the response."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from barnabas.console.cluster.console_client import ClusterFailed, Unreachable
from barnabas.console.console_state import ClusterHandle, ConsoleState
from barnabas.console.web.access import COOKIE, LOCAL, Session, is_loopback
from barnabas.console.web.rendering import relative_root

EVENT_STREAM: Final = "text/event-stream"
LIVE_EVERY_S: Final = 2.0
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
        text = self.argument(name)
        sign = text[:1] == "-"
        if not text[sign:].isdecimal():
            return default
        return min(most, max(least, int(text)))

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
            "may_write": self.may_write,
            "can_sign_out": self.session.person is not None,
            "csrf": self.state.sessions.token(self.session),
            "bootstrap": self.state.options.bootstrap,
            "notices": [],
            "failure": None,
            "is_absent": False,
            "path": path,
            "here_url": self.request.url.query and f"?{self.request.url.query}",
            "quoted": lambda text: quote(str(text), safe=""),
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
        if self.is_new_session:
            forwarded = self.request.headers.get("x-forwarded-proto") if self._is_of_proxy else None
            is_https = (forwarded or self.request.url.scheme) == "https"
            response.set_cookie(
                COOKIE, self.session.id, httponly=True, samesite="strict", secure=is_https
            )
        return response

    def block(self, template: str, given: Mapping[str, Any]) -> str:
        return self.state.templates.live(template, self.context(given))


Gather = Callable[[Page], Awaitable[Context]]


def live_page(path: str, template: str, gather: Gather, every_s: float = LIVE_EVERY_S) -> Route:
    """A page whose block `live` is sent again, over server-sent events, when it changes."""

    async def endpoint(request: Request) -> Response:
        page = Page(request)
        if not page.is_known:
            return sign_in_first(page)
        if EVENT_STREAM in request.headers.get("accept", ""):
            return StreamingResponse(
                _updates(page, template, gather, every_s), media_type=EVENT_STREAM
            )
        return page.render(template, await gathered(page, gather))

    return Route(path, endpoint, methods=["GET"])


async def gathered(page: Page, gather: Gather) -> Context:
    """The page's context; a cluster that does not answer becomes part of the page."""
    try:
        return await gather(page)
    except ClusterFailed as failure:
        return {"failure": str(failure), "is_absent": isinstance(failure, Unreachable)}


async def _updates(page: Page, template: str, gather: Gather, every_s: float) -> AsyncIterator[str]:
    """The page's live block, whenever it has changed. Ends when the browser goes away."""
    sent = ""
    async with page.cluster.watched():
        is_open = True
        while is_open:
            html = page.block(template, await gathered(page, gather))
            yield ": alive\n\n" if html == sent else server_sent("live", html)
            sent = html
            is_open = await page.state.pause(every_s)


def server_sent(event: str, data: str) -> str:
    """One event of an event stream."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines())
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
    return page.redirect("sign-in")
