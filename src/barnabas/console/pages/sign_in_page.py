"""Sign-in with the console's password, or with a SASL user of the cluster; sign-out."""

import asyncio
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.base.errors import ConfigError
from barnabas.console.cluster.console_client import ClusterFailed, Unreachable
from barnabas.console.console_options import ConsoleOptions
from barnabas.console.web.access import is_own_origin, is_same
from barnabas.console.web.limits import Crowded
from barnabas.console.web.page import Page

_AFTER_FAILURE_S: Final = 0.5
_FIELDS: Final = 10
_LONGEST: Final = 16 * 1024


async def show(request: Request) -> Response:
    page = Page(request)
    return _form(page, None) if not page.is_known else page.redirect(_next(page))


def _next(page: Page) -> str:
    """The page that the person wanted. A link relative to the console leads to no other site."""
    return page.argument("next")


def _form(page: Page, wrong: str | None, refused: int = 403) -> Response:
    sasl = page.state.options.sasl_mechanism
    status = 200 if wrong is None else refused
    given = {"sasl": sasl, "wrong": wrong, "next": _next(page)}
    return page.render("sign_in.html", given, status)


async def sign_in(request: Request) -> Response:
    page = Page(request)
    if not is_own_origin(request):
        return _form(page, "The form came from another site.")
    form = await request.form(max_files=0, max_fields=_FIELDS, max_part_size=_LONGEST)
    peer = request.client.host if request.client else ""
    try:
        async with page.state.attempts.turn(peer):
            return await _attempt(page, form)
    except Crowded as crowded:
        return _form(page, str(crowded), 429)


async def _attempt(page: Page, form: Any) -> Response:
    if page.state.options.sasl_mechanism is not None:
        return await _sign_in_to_cluster(page, form)
    password = page.state.options.password
    if password is None or not is_same(str(form.get("password", "")), password):
        await asyncio.sleep(_AFTER_FAILURE_S)
        return _form(page, "This is not the password.")
    page.signed_in(str(form.get("name", "")).strip() or "operator")
    return page.redirect(_next(page))


async def _sign_in_to_cluster(page: Page, form: Any) -> Response:
    options = page.state.options
    name = str(form.get("name", "")).strip()
    password = str(form.get("password", ""))
    try:
        handle = page.state.handle(login_properties(options, name, password))
    except ConfigError as wrong:
        return _form(page, str(wrong))
    try:
        await handle.client.view()
    except ClusterFailed as failure:
        handle.close()
        await asyncio.sleep(_AFTER_FAILURE_S)
        who = (
            "The cluster does not answer"
            if isinstance(failure, Unreachable)
            else f"The cluster refuses {name}"
        )
        return _form(page, f"{who}: {failure}")
    page.signed_in(name, handle)
    return page.redirect(_next(page))


def login_properties(options: ConsoleOptions, name: str, password: str) -> dict[str, str]:
    """The client's properties with this person's login, and no other: a JAAS config would win."""
    own = {key: value for key, value in options.properties.items() if key != "sasl.jaas.config"}
    login = {"sasl.username": name, "sasl.password": password}
    return {**own, "sasl.mechanism": options.sasl_mechanism or "", **login}


async def sign_out(request: Request) -> Response:
    page = Page(request)
    if is_own_origin(request):
        page.state.sessions.end(page.session)
    return page.redirect("sign-in")


ROUTES: Final = (
    Route("/sign-in", show, methods=["GET"]),
    Route("/sign-in", sign_in, methods=["POST"]),
    Route("/sign-out", sign_out, methods=["POST"]),
)
