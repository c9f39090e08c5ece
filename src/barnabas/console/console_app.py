"""The console's application: routes, and what happens when a page fails."""

import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from barnabas.console.cluster.console_client import ClusterFailed, Unreachable
from barnabas.console.console_state import ConsoleState
from barnabas.console.pages import (
    cluster_page,
    group_actions,
    group_reset,
    groups_page,
    log_page,
    messages_page,
    overview_page,
    pipelines_page,
    produce_page,
    reassign_page,
    security_page,
    shutdown_action,
    sign_in_page,
    simulation_page,
    topic_actions,
    topic_page,
    topics_page,
    transactions_page,
)
from barnabas.console.web.access import HEADERS, Guard, is_loopback
from barnabas.console.web.page import Page, SignInNeeded, live_page, sign_in_first
from barnabas.console.web.rendering import STATIC

_LOG: Final = logging.getLogger("barnabas.console")
_FOREVER: Final = "public, max-age=31536000, immutable"


class _Assets(StaticFiles):
    """Static files; their URLs change with their content, so browsers keep them."""

    def file_response(self, *args: Any, **kwargs: Any) -> Response:
        response = super().file_response(*args, **kwargs)
        response.headers["cache-control"] = _FOREVER
        return response


def routes() -> list[BaseRoute]:
    return [
        live_page("/", "overview.html", overview_page.gather_overview),
        live_page("/topics", "topics.html", topics_page.gather_topics),
        live_page("/topics/{topic}", "topic.html", topic_page.gather_topic),
        live_page("/topics/{topic}/configs", "topic_configs.html", topic_page.gather_topic_configs),
        live_page("/topics/{topic}/actions", "topic_actions.html", topic_page.gather_topic_actions),
        *topic_actions.ROUTES,
        *messages_page.ROUTES,
        *produce_page.ROUTES,
        *group_actions.ROUTES,
        *group_reset.ROUTES,
        *cluster_page.ROUTES,
        *reassign_page.ROUTES,
        *shutdown_action.ROUTES,
        live_page("/groups", "groups.html", groups_page.gather_groups),
        live_page("/group", "group.html", groups_page.gather_group),
        live_page("/log", "log.html", log_page.gather_log, 5.0),
        *simulation_page.ROUTES,
        *transactions_page.ROUTES,
        *security_page.ROUTES,
        *pipelines_page.ROUTES,
        *sign_in_page.ROUTES,
        Route("/health", _health, methods=["GET"]),
        Mount("/static", _Assets(directory=STATIC)),
    ]


async def _health(request: Request) -> Response:
    return PlainTextResponse("ok\n")


def build_app(state: ConsoleState) -> Starlette:
    """The application; it closes `state` when it ends."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        state.warm_up()
        yield
        state.close()

    options = state.options
    has_door = options.password or options.user_header or options.sasl_mechanism
    only_loopback = is_loopback(options.host) and not has_door
    app = Starlette(
        routes=routes(),
        lifespan=lifespan,
        middleware=[Middleware(Guard, only_loopback=only_loopback)],
        exception_handlers={
            SignInNeeded: _sign_in,
            ClusterFailed: _cluster_failed,
            HTTPException: _http_error,
            Exception: _bug,
        },
    )
    app.state.console = state
    return app


async def _sign_in(request: Request, _: Exception) -> Response:
    return sign_in_first(Page(request))


async def _cluster_failed(request: Request, failure: Exception) -> Response:
    is_absent = isinstance(failure, Unreachable)
    title = "The cluster does not answer" if is_absent else "This cannot be shown"
    given = {"title": title, "what": str(failure), "retries": is_absent and request.method == "GET"}
    return Page(request).render("refused.html", given, 502)


async def _bug(request: Request, _: Exception) -> Response:
    """The traceback is on the console's log."""
    what = "This is a bug of the console; its log has the details. Other pages work."
    page = Page(request).render("refused.html", {"title": "This page failed", "what": what}, 500)
    page.headers.update(HEADERS)
    return page


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = {404: "There is no such page.", 405: "This page takes no such request."}
    given = {"title": f"Error {error.status_code}", "what": words.get(error.status_code, "")}
    given["what"] = given["what"] or str(error.detail)
    return Page(request).render("refused.html", given, error.status_code)
