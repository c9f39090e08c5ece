"""Changes: a POST that is confirmed with what it will do, checked, carried out and recorded."""

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.cli.exit_codes import CommandFailed
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.web.access import is_own_origin
from barnabas.console.web.page import Page, sign_in_first

Form = Mapping[str, str]


class Plan(NamedTuple):
    """A change as the person confirms it: effects first, then the call that carries it out.

    `carry_out` returns one sentence about what was done.
    """

    title: str
    effects: list[str]
    verb: str
    carry_out: Callable[[], Awaitable[str]]
    back: str
    is_dangerous: bool = False


class WrongInput(ClusterFailed):
    """The form has a value that cannot be meant."""


Decide = Callable[[Page, Form], Awaitable[Plan]]


def action(path: str, name: str, decide: Decide) -> Route:
    """A route for one kind of change."""

    async def endpoint(request: Request) -> Response:
        page = Page(request)
        if not page.is_known:
            return sign_in_first(page)
        posted = await request.form()
        form = {key: value for key, value in posted.items() if isinstance(value, str)}
        if (refusal := _refusal(page, form)) is not None:
            return page.render("refused.html", {"title": "Nothing was changed", **refusal}, 403)
        try:
            plan = await decide(page, form)
        except (ClusterFailed, CommandFailed) as failure:
            given = {"title": "Nothing was changed", "what": str(failure)}
            return page.render("refused.html", given, 400)
        if form.get("confirmed") != "yes":
            return page.render("confirm.html", {"plan": plan, "form": form})
        return await _carry_out(page, name, plan)

    return Route(path, endpoint, methods=["POST"])


def _refusal(page: Page, form: Form) -> dict[str, str] | None:
    if not page.may_write:
        return {"what": "This console only reads. Start it with --write to allow changes."}
    if not is_own_origin(page.request):
        return {"what": "Another site sent this form."}
    if not page.state.sessions.is_token(page.session, form.get("csrf", "")):
        return {"what": "The form is too old, or not from this browser. Open the page again."}
    return None


async def _carry_out(page: Page, name: str, plan: Plan) -> Response:
    what = f"{plan.title}: {' '.join(plan.effects)}"
    try:
        done = await plan.carry_out()
    except (ClusterFailed, CommandFailed) as failure:
        page.state.audit.add(page.person, name, what, f"failed: {failure}")
        page.session.notices.append(("bad", f"{plan.title} failed: {failure}"))
    else:
        page.state.audit.add(page.person, name, what, "done")
        page.session.notices.append(("good", done))
    page.cluster.index.forget()
    page.cluster.lags.forget()
    return page.redirect(plan.back)


def integer(form: Form, name: str, least: int, what: str) -> int:
    """Raises WrongInput"""
    text = form.get(name, "").strip()
    if not text.lstrip("-").isdecimal() or int(text) < least:
        raise WrongInput(f"{what} must be a number of at least {least}, not “{text}”")
    return int(text)


def pairs(text: str) -> dict[str, str]:
    """Lines of KEY=VALUE. Raises WrongInput."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals:
            raise WrongInput(f"“{line}” is not KEY=VALUE")
        found[key.strip()] = value.strip()
    return found
