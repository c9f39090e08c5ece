"""Changes: a POST that is confirmed with what it will do, checked, carried out and recorded."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from barnabas.cli.exit_codes import CommandFailed
from barnabas.console.cluster.console_client import ClusterFailed
from barnabas.console.web.access import is_own_origin
from barnabas.console.web.page import Page, parse_integer, sign_in_first

LONGEST: Final = 2**63 - 1
_SHOWN: Final = 40
_LARGEST: Final = 16 * 1024 * 1024
_FIELDS: Final = 20
_TOO_OLD: Final = "The form is too old, or not from this browser. Open the page again."
_DONE: Final = (
    "This was confirmed before, or too long ago. See whether it is done before you repeat it."
)
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


MakePlan = Callable[[Page, Form], Awaitable[Plan]]


def action(path: str, name: str, make_plan: MakePlan) -> Route:
    """A route for one kind of change: the first POST makes a plan, the second carries it out.

    The plan that a person has seen is kept, and carried out once.
    """

    async def endpoint(request: Request) -> Response:
        page = Page(request)
        if not page.is_known:
            return sign_in_first(page)
        if (refusal := _refusal(page)) is not None:
            return _refuse(page, refusal, 403)
        posted = await request.form(max_files=0, max_fields=_FIELDS, max_part_size=_LARGEST)
        form = {key: value for key, value in posted.items() if isinstance(value, str)}
        if not page.state.sessions.is_token(page.session, form.get("csrf", "")):
            return _refuse(page, _TOO_OLD, 403)
        if "confirmed" in form:
            plan = page.session.plans.pop(form["confirmed"], None)
            return await _carry_out(page, name, plan) if plan else _refuse(page, _DONE, 409)
        try:
            plan = await make_plan(page, form)
        except (ClusterFailed, CommandFailed) as failure:
            return _refuse(page, str(failure), 400)
        plan_id = page.state.sessions.keep(page.session, plan)
        return page.render("confirm.html", {"plan": plan, "plan_id": plan_id})

    return Route(path, endpoint, methods=["POST"])


def _refusal(page: Page) -> str | None:
    """Why this person may change nothing; known before the form is read."""
    if not page.may_write:
        return "This console only reads. Start it with --write to allow changes."
    return None if is_own_origin(page.request) else "Another site sent this form."


def _refuse(page: Page, why: str, status: int) -> Response:
    return page.render("refused.html", {"title": "Nothing was changed", "what": why}, status)


async def _carry_out(page: Page, name: str, plan: Plan) -> Response:
    what = f"{plan.title}: {' '.join(plan.effects)}"
    try:
        page.state.audit.check()
    except OSError as failure:
        return _refuse(page, f"The audit log cannot be written: {failure}", 500)
    outcome = "interrupted"
    try:
        done = await plan.carry_out()
        outcome = "done"
        page.session.notices.append(("good", done))
    except (ClusterFailed, CommandFailed) as failure:
        outcome = f"failed: {failure}"
        page.session.notices.append(("bad", f"{plan.title} failed: {failure}"))
    finally:
        page.state.audit.add(page.person, name, what, outcome)
        page.cluster.index.forget()
        page.cluster.lags.forget()
    return page.redirect(plan.back)


async def is_operator(page: Page) -> bool:
    """True if the person may see and act on this machine's files and processes.

    No broker checks that. With sign-in it needs what altering the cluster needs.
    Raises  ClusterFailed
    """
    return page.state.options.sasl_mechanism is None or await page.cluster.client.may_alter()


async def check_operator(page: Page) -> None:
    """Raises ClusterFailed if the person may not act on this machine's processes"""
    if not await is_operator(page):
        raise ClusterFailed(
            f"The cluster does not allow {page.person} to alter it; starting and stopping processes"
            " on this machine needs that right (ALTER on the cluster)"
        )


def integer(form: Form, name: str, least: int, what: str, most: int = 2**31 - 1) -> int:
    """Raises WrongInput"""
    text = form.get(name, "").strip()
    number = parse_integer(text.removeprefix("+"))
    if number is None or not least <= number <= most:
        bounds = f"of at least {least}" if most >= 2**31 - 1 else f"from {least} to {most}"
        raise WrongInput(f"{what} must be a number {bounds}, not “{text[:_SHOWN]}”")
    return number


def pairs(text: str) -> list[tuple[str, str]]:
    """Lines of KEY=VALUE. Raises WrongInput."""
    found: list[tuple[str, str]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals:
            raise WrongInput(f"“{line}” is not KEY=VALUE")
        found.append((key.strip(), value.strip()))
    return found
