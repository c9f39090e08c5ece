"""Bad properties that somebody wrote to the tree: their topics are served all the same."""

from pathlib import Path

import pytest

from barnabas.server.cluster.topic_creation import NewTopic
from barnabas.znodes import layout, paths
from barnabas.znodes.tree import Coordination, CreateNode
from tests.server.raw import Insight, until, with_broker

BAD = {
    "a value that cannot be": layout.encode_config({"retention.ms": "abc", "segment.ms": "60000"}),
    "a name that nobody knows": layout.encode_config({"nonsense": "1", "segment.ms": "60000"}),
    "no JSON": b"{",
    "a value that is no text": b'{"version":1,"config":{"retention.ms":1000}}',
}


def tree(insight: Insight) -> Coordination:
    found: Coordination = vars(insight.running.broker.topics)["_coordination"]
    return found


async def make_behind_its_back(insight: Insight, config: bytes) -> None:
    assignment = layout.TopicAssignment({0: (insight.running.broker.broker_id,)})
    await tree(insight).multi(
        [
            CreateNode(paths.config_path(paths.topic_entity("bad")), config),
            CreateNode(paths.topic_path("bad"), layout.encode_topic(assignment)),
        ]
    )


@pytest.mark.parametrize("kind", BAD)
def test_a_topic_with_bad_properties_is_led_and_so_are_others(tmp_path: Path, kind: str) -> None:
    async def scenario(insight: Insight) -> None:
        await make_behind_its_back(insight, BAD[kind])
        replicas = insight.running.broker.replicas
        await until(lambda: replicas.find("bad", 0) is not None)
        await insight.create("good")
        config = insight.leader("bad").log.config
        assert config.retention_ms == insight.leader("good").log.config.retention_ms
        if "segment" in str(BAD[kind]):
            assert config.segment_ms == 60_000
        assert not insight.running.failed.done()

    with_broker(tmp_path, scenario)


def test_a_change_that_is_not_named_as_one_is_passed_over(tmp_path: Path) -> None:
    async def scenario(insight: Insight) -> None:
        await insight.create("t")
        await tree(insight).create(f"{paths.CONFIG_CHANGES}/by-hand")
        path = paths.config_path(paths.topic_entity("t"))
        await tree(insight).set(path, layout.encode_config({"segment.ms": "60000"}))
        change = layout.encode_config_change(paths.topic_entity("t"))
        await tree(insight).create(paths.CONFIG_CHANGE, change, sequential=True)
        await until(lambda: insight.leader("t").log.config.segment_ms == 60_000)
        await insight.running.broker.topics.create(NewTopic("u"), validate_only=True)

    with_broker(tmp_path, scenario)
