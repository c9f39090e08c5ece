"""docs/states.md shows the tables of states that the code obeys."""

import re

from barnabas.controller.states import PARTITION_FROM, REPLICA_FROM
from barnabas.groups.classic.classic_state import NEXT
from barnabas.server.network import authentication_state
from barnabas.server.state_diagrams import Diagram, diagrams, states_page
from barnabas.transactions.transaction_state import ENTERED_FROM
from tests.support.documents import blocks, document

TRANSITION = re.compile(r"    (\w+|\[\*\]) --> (\w+|\[\*\])(: [^:;]+)?")
REWRITE = "write it with: python -m barnabas.server.state_diagrams > docs/states.md"


def drawn(diagram: Diagram) -> set[tuple[str, str]]:
    return {(edge.source, edge.target) for edge in diagram.edges}


def test_the_page_is_current() -> None:
    assert document("docs/states.md") == states_page(), REWRITE


def test_each_diagram_has_every_transition_of_its_table_and_no_other() -> None:
    partitions, replicas, classic, transactions, authentication = diagrams()
    for diagram, table in ((partitions, PARTITION_FROM), (replicas, REPLICA_FROM)):
        allowed = {(source.value, to.value) for to, froms in table.items() for source in froms}
        assert drawn(diagram) == allowed
    entered = {(source.value, to.value) for to, froms in ENTERED_FROM.items() for source in froms}
    assert drawn(transactions) == entered
    events = {(state.value, to.value) for state, next_ in NEXT.items() for to in next_.values()}
    assert drawn(classic) == events
    allowed = {
        (a.value, b.value) for a, after in authentication_state.NEXT.items() for b in after.values()
    }
    assert drawn(authentication) == allowed


def test_every_state_is_drawn_once_it_can_be_reached() -> None:
    for diagram in diagrams():
        reached = {diagram.start}
        while more := {target for source, target in drawn(diagram) if source in reached} - reached:
            reached |= more
        assert reached == {state for edge in drawn(diagram) for state in edge}


def test_the_page_is_mermaid_that_renders() -> None:
    for block in blocks(states_page(), "mermaid"):
        first, *rest = block.splitlines()
        assert first == "stateDiagram-v2"
        assert all(TRANSITION.fullmatch(line) for line in rest)
