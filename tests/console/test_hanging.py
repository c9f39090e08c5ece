"""A hanging transaction in a real browser: found, aborted after a confirmation."""

from collections.abc import Callable

import pytest

from barnabas.testing import Cluster
from tests.console.conftest import LOOKS, Look, Visitor, running_console

pytestmark = [pytest.mark.long, pytest.mark.timeout(120)]
Visit = Callable[..., Visitor]


@pytest.mark.parametrize("look", LOOKS)
def test_a_hanging_transaction_is_found_and_aborted(visit: Visit, look: Look) -> None:
    with Cluster(brokers=1) as kafka:
        kafka.create_topic("payments")
        kafka.hang_transaction("payments")
        with running_console(kafka.bootstrap_servers, "--write") as console:
            person = visit(at=console)
            page = person.open("transactions", "Transactions")
            page.get_by_role("link", name="Look for hanging ones in all topics").click()
            page.get_by_role("heading", name="Open in all topics").wait_for()
            page.get_by_text("hanging").first.wait_for()
            person.check()
            page.get_by_role("button", name="Abort").first.click()
            page.get_by_text("payments-0 gets an abort marker").wait_for()
            person.check()
            person.confirm("Abort")
            page.get_by_text("in payments-0 was aborted.").wait_for()
            page.get_by_role("button", name="Abort").wait_for(state="detached")
            person.check()
