"""The index of topics: counted without decoding, as if every partition had been decoded."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from kio.schema.metadata.v12.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.static.primitive import i32

from barnabas.base.errors import ErrorCode
from barnabas.console.cluster.topic_index import read_index, read_partitions, read_placement
from barnabas.wire.schema import NO_THROTTLE, write_body

# Few brokers, or so many that the length of the list takes two bytes.
BROKERS = st.permutations(range(5)).flatmap(
    lambda few: st.sampled_from([few[:1], few[:3], few, [*range(150)]])
)


@st.composite
def partitions(draw: st.DrawFn) -> list[MetadataResponsePartition]:
    made = []
    for number in range(draw(st.integers(0, 6))):
        replicas = draw(BROKERS)
        isr = replicas[: draw(st.integers(0, len(replicas)))]
        made.append(
            MetadataResponsePartition(
                error_code=ErrorCode.none,
                partition_index=i32(number),
                leader_id=i32(isr[0] if isr else -1),
                leader_epoch=i32(draw(st.integers(-1, 9))),
                replica_nodes=tuple(replicas),
                isr_nodes=tuple(isr),
                offline_replicas=tuple(draw(st.lists(st.integers(0, 400), max_size=3))),
            )
        )
    return made


@given(topics=st.dictionaries(st.text("abc.-", min_size=1, max_size=200), partitions()))
def test_counts_are_those_of_the_partitions(
    topics: dict[str, list[MetadataResponsePartition]],
) -> None:
    response = MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=(MetadataResponseBroker(node_id=i32(1), host="h", port=i32(9092), rack=None),),
        cluster_id="c",
        controller_id=i32(1),
        topics=tuple(
            MetadataResponseTopic(
                error_code=ErrorCode.none,
                name=name,
                topic_id=None,
                is_internal=False,
                partitions=tuple(made),
                topic_authorized_operations=i32(0),
            )
            for name, made in topics.items()
        ),
    )
    body = b"\0" + bytes(write_body(MetadataResponse, response))  # no tagged fields of the header
    index = read_index(memoryview(body), 0.0)
    assert list(index.topics) == sorted(topics)
    every = [each for made in topics.values() for each in made]
    assert index.partitions == len(every)
    assert index.offline == sum(each.leader_id < 0 for each in every)
    assert index.under_replicated == sum(len(p.isr_nodes) < len(p.replica_nodes) for p in every)
    for name, made in topics.items():
        rows = read_partitions(index.topics[name])
        assert [row.replicas for row in rows] == [each.replica_nodes for each in made]
        assert [row.isr for row in rows] == [each.isr_nodes for each in made]
    placement = read_placement(index)
    assert placement.led == Counter(each.leader_id for each in every)
    assert placement.held == Counter(node for each in every for node in each.replica_nodes)
    assert placement.misled == sum(p.leader_id != p.replica_nodes[0] for p in every)
