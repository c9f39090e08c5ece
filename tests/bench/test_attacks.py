"""The attacks of `barnabas bench limits`, small ones, on one broker that must stand them."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from barnabas.bench.attacks.attack import MB, Attack, Target
from barnabas.bench.attacks.attack_run import PROBED, Attacked, AttackEffort, watched
from barnabas.bench.attacks.attack_run import attacked as downed
from barnabas.bench.attacks.attack_table import ATTACKS
from barnabas.bench.clusters.bench_topics import create_topic
from barnabas.bench.compare.compare_sites import Site, barnabas
from barnabas.bench.server_processes import HAS_PROC

pytestmark = [
    pytest.mark.skipif(not HAS_PROC, reason="the memory of a process is read from /proc"),
    pytest.mark.xdist_group("attacks"),  # they share one broker
]

READABLE: Final = ("batch deltas", "batch timestamp")  # refused or corrected: consumers read on
QUEUED_BYTES: Final = 100 * 1024 * 1024  # the least: one request may have as many
EFFORT: Final = AttackEffort(quick=True, settle_s=0.0, quiet_s=0.5, recovery_s=20.0)
# A busy machine delays the other client, too; without any bound it waits for the whole attack.
WORST_S: Final = 5.0
CONNECTION_BYTES: Final = 64 * 1024
FETCH_SESSIONS: Final = 100
PROPERTIES: Final = {
    "auto.create.topics.enable": "true",
    "queued.max.request.bytes": str(QUEUED_BYTES),
    "barnabas.receive.stall.timeout.ms": "1000",
    "max.incremental.fetch.session.cache.slots": str(FETCH_SESSIONS),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with barnabas(PROPERTIES).start(Path(tmp_path_factory.mktemp("attacked")), 1) as started:
        create_topic(started.bootstrap, PROBED, 1)
        yield started


def attack(key: str) -> Attack:
    (found,) = [each for each in ATTACKS if each.key == key]
    return found


def attacked(
    site: Site, key: str, count: int, hold_s: float = 1.0, *, gives_back: bool = True
) -> Attacked:
    """Attack while another client is served, which every attack must leave served."""
    target = Target(site, count, hold_s, say=lambda _: None)
    found = watched(replace(attack(key), full=count), target, EFFORT)
    assert found.during is not None
    assert (found.during.unserved, found.during.worst_s < WORST_S) == (0, True), found
    assert found.serves_again, found
    assert found.gave_back or not gives_back, found
    return found


@pytest.mark.parametrize("key", [each.key for each in ATTACKS if each.key.startswith("batch")])
def test_no_batch_is_acknowledged_that_a_consumer_cannot_read(site: Site, key: str) -> None:
    found = attack(key)
    happened = found.perform(Target(site, found.quick, 15.0, say=lambda _: None))
    assert happened.facts["read_past"] == 1, happened.text
    assert happened.facts["acknowledged"] == 0 or key in READABLE, happened.text


def test_unfinished_requests_take_no_more_memory_than_the_limit(site: Site) -> None:
    found = attacked(site, "announced", 8)
    assert found.happened.sent_bytes > QUEUED_BYTES
    assert found.memory_most - found.memory_before <= 1.2 * QUEUED_BYTES + 16 * MB


def test_a_connection_that_stalls_in_the_middle_of_a_request_is_closed(site: Site) -> None:
    assert attacked(site, "stall", 20, hold_s=20.0).happened.facts["closed"] == 20


@pytest.mark.parametrize(("key", "count"), [("sizes", 2), ("protocols", 2)])
def test_what_is_no_request_closes_the_connection(site: Site, key: str, count: int) -> None:
    assert attacked(site, key, count).happened.facts["refused"] == 1


def test_arrays_that_claim_more_than_was_sent_take_no_memory(site: Site) -> None:
    found = attacked(site, "arrays", 2)
    assert found.happened.facts["unanswered"] == 0
    assert found.memory_most - found.memory_before < 16 * MB


@pytest.mark.parametrize(
    "key", ["offsets at once", "configs at once", "added at once", "deleted at once"]
)
def test_requests_with_many_elements_are_served_in_turn(site: Site, key: str) -> None:
    # The first one loads modules, and leaves room in the heap for the next.
    attack(key).perform(Target(site, 1, 60.0, say=lambda _: None))
    # Of 80 MB of objects 15 to 50 stay with Python, which uses them for the next ones.
    found = attacked(site, key, 3, hold_s=60.0, gives_back=False)
    assert found.happened.facts["answered"] == 3
    assert found.memory_most - found.memory_before < 150 * MB


def test_client_ids_are_not_kept(site: Site) -> None:
    found = attacked(site, "client ids", 1_000)
    assert found.happened.facts["served"] == 1_000
    assert found.memory_most - found.memory_before < found.happened.sent_bytes / 2


def test_fetch_sessions_are_no_more_than_there_are_slots(site: Site) -> None:
    found = attacked(site, "fetch sessions", 2 * FETCH_SESSIONS)
    assert 0 < found.happened.facts["opened"] <= FETCH_SESSIONS
    assert found.memory_most - found.memory_before < 16 * MB


def test_the_metadata_of_members_is_given_back_with_their_sessions(site: Site) -> None:
    found = attacked(site, "groups", 40)
    assert found.memory_most - found.memory_before <= 1.2 * found.happened.sent_bytes + 16 * MB


def test_an_assignment_that_no_record_can_hold_is_refused_before_it_is_encoded(
    site: Site,
) -> None:
    found = attacked(site, "assigned", 60, hold_s=60.0)
    assert found.happened.facts["answered"]
    assert not found.happened.facts["assigned"]
    assert found.memory_most - found.memory_before <= 2.5 * found.happened.sent_bytes + 16 * MB


def test_a_request_that_creates_many_topics_is_answered_and_logged_once(site: Site) -> None:
    found = attacked(site, "auto-create", 500, hold_s=30.0)
    assert found.happened.facts["answered"] == 1
    assert found.happened.facts["log_lines"] < 50


@pytest.mark.parametrize(("key", "count"), [("connect 3000", 300), ("connect 8000", 800)])
def test_clients_that_connect_at_once_are_all_served(site: Site, key: str, count: int) -> None:
    found = attacked(site, key, count)
    assert found.happened.facts["served"] == count
    assert found.memory_most - found.memory_before < count * CONNECTION_BYTES + 16 * MB


def test_idle_connections_stay_open_and_take_little_memory(site: Site) -> None:
    found = attacked(site, "idle", 500)
    assert found.happened.facts["open"] == 500
    assert found.memory_most - found.memory_before < 500 * CONNECTION_BYTES + 16 * MB


def test_requests_that_arrive_byte_by_byte_delay_nobody(site: Site) -> None:
    found = attacked(site, "drip", 50, hold_s=3.0)
    assert found.happened.sent_bytes >= 50
    assert found.memory_most - found.memory_before < 50 * CONNECTION_BYTES + 16 * MB


def test_responses_that_nobody_reads_take_little_memory(site: Site) -> None:
    found = attacked(site, "never read", 5)
    assert found.happened.facts["asked_bytes"] > 100 * MB
    assert found.memory_most - found.memory_before < 50 * MB


def test_records_from_the_disk_that_nobody_reads_take_little_memory(site: Site) -> None:
    # The C library keeps the end of each thread's arena, whatever it is asked.
    found = attacked(site, "never read cold", 16, gives_back=False)
    assert found.happened.facts["asked_bytes"] > 100 * MB
    assert found.memory_most - found.memory_before < 100 * MB


def test_compressed_messages_of_old_clients_take_no_more_memory_than_is_allowed(
    site: Site,
) -> None:
    # Objects of threads: the C library keeps what they have freed, for a while or for good.
    found = attacked(site, "old produce", 3, hold_s=60.0, gives_back=False)
    assert found.happened.facts["answered"] == 3
    assert found.happened.facts["acknowledged"] == 0
    assert found.memory_most - found.memory_before < 100 * MB


def test_converted_responses_that_nobody_reads_take_bounded_memory(site: Site) -> None:
    # As above.
    found = attacked(site, "old fetch", 8, gives_back=False)
    assert found.happened.facts["asked_bytes"] > 1_000 * MB
    assert found.memory_most - found.memory_before < 100 * MB


def test_a_half_closed_connection_is_closed(site: Site) -> None:
    assert attacked(site, "half closed", 50, hold_s=10.0).happened.facts["closed"] == 50


@pytest.mark.parametrize(
    "key",
    [
        "partitions",
        pytest.param(
            "killed",
            marks=pytest.mark.skipif(shutil.which("java") is None, reason="Java is not installed"),
        ),
    ],
)
def test_a_broker_that_was_down_serves_again(key: str, tmp_path: Path) -> None:
    found = downed(barnabas(), attack(key), EFFORT, tmp_path, say=lambda _: None)
    assert all(seconds > 0 for seconds in found.happened.facts.values())
    assert found.memory_most < 150 * MB
