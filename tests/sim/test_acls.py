"""ACLs that change under load: rights that were revoked end with the notification."""

import pytest

from barnabas.sim.acl_run import run_with_acls
from barnabas.sim.checkers.acl_checker import NOTIFIED_WITHIN_S, RightsChecker
from barnabas.sim.seed_runner import run_seed
from barnabas.sim.world.seed_settings import has_acls, settings_of

pytestmark = pytest.mark.timeout(600)


def watched(seed: int, duration_s: float) -> RightsChecker:
    checkers: list[RightsChecker] = []
    report = run_with_acls(settings_of(seed, duration_s), checkers=checkers)
    assert report.broken == ()
    return checkers[0]


def test_revoked_rights_end_while_clients_use_them() -> None:
    checkers = [watched(seed, 8.0) for seed in (1, 2, 3)]
    assert all(checker.served for checker in checkers)
    assert sum(checker.refused for checker in checkers) > 10


def test_some_seeds_of_every_search_change_acls() -> None:
    chosen = [seed for seed in range(1, 51) if has_acls(seed)]
    assert 2 <= len(chosen) <= 10
    with_acls = run_with_acls(settings_of(chosen[0], 4.0))
    assert run_seed(chosen[0], 4.0).digest == with_acls.digest


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 22))
def test_revoked_rights_end_under_faults(seed: int) -> None:
    assert watched(seed, 40.0).refused


def test_acl_1_is_broken_by_a_request_that_is_served_too_late() -> None:
    broken: list[str] = []
    checker = RightsChecker(broken.append)
    checker.on_served("Fetch", 1.0)
    checker.on_revoked(2.0)
    checker.on_served("Fetch", 2.0 + NOTIFIED_WITHIN_S)
    assert not broken
    checker.on_served("Fetch", 2.1 + NOTIFIED_WITHIN_S)
    assert len(broken) == 1
    assert broken[0].startswith("ACL-1 ")
    checker.on_grant()
    checker.on_served("Fetch", 9.0)
    assert len(broken) == 1
