"""Kafka's decision by ACLs (S25, S26, S27), compared with the rules written down naively."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.acl_cache import AclCache
from barnabas.security.acl_decision import Question, Rules, decide, decide_by_type
from barnabas.security.acls import (
    Acl,
    AclFilter,
    Entry,
    InvalidAcl,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    check_acl,
    java_address,
)
from barnabas.security.authorizer import Authorizer
from barnabas.security.principal import Principal

TOPIC = ResourceType.TOPIC
NAMES = ("a", "ab", "abc", "b")
OPERATIONS = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER)
CONFIGS = (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS, Operation.ALL)

patterns = st.builds(
    ResourcePattern,
    st.just(TOPIC),
    st.sampled_from((*NAMES, "*")),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
).filter(lambda each: each.name != "*" or each.pattern_type is PatternType.LITERAL)
entries = st.builds(
    Entry,
    st.sampled_from(("User:alice", "User:bob", "User:*")),
    st.sampled_from(("10.0.0.1", "10.0.0.2", "*")),
    st.sampled_from((*OPERATIONS, *CONFIGS)),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
acl_lists = st.lists(st.builds(Acl, patterns, entries), max_size=6)
rule_sets = st.builds(
    Rules, st.sampled_from((frozenset(), frozenset({"User:alice"}))), st.booleans()
)
operations = st.sampled_from((*OPERATIONS, *CONFIGS[:2]))
IMPLIES_DESCRIBE = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}


def cache_of(acls: Iterable[Acl]) -> AclCache:
    cache = AclCache()
    for acl in acls:
        cache.replace(acl.resource, cache.entries(acl.resource) | {acl.entry})
    return cache


def naive(question: Question, acls: list[Acl], rules: Rules) -> bool:
    """The rules of the documentation, one after the other."""
    if question.principal in rules.super_users:
        return True
    here = [
        entry
        for (_, name, kind), entry in acls
        if (name in (question.name, "*") and kind is PatternType.LITERAL)
        or (kind is PatternType.PREFIXED and question.name.startswith(name))
    ]
    if not here:
        return rules.allow_everyone_if_no_acl_found
    mine = [
        entry
        for entry in here
        if entry.principal in ("User:*", question.principal) and entry.host in ("*", question.host)
    ]
    wanted = question.operation
    if any(e.permission is Permission.DENY and e.operation in (wanted, 2) for e in mine):
        return False
    enough = {wanted, Operation.ALL}
    if wanted is Operation.DESCRIBE:
        enough |= IMPLIES_DESCRIBE
    if wanted is Operation.DESCRIBE_CONFIGS:
        enough |= {Operation.ALTER_CONFIGS}
    return any(e.permission is Permission.ALLOW and e.operation in enough for e in mine)


@given(acl_lists, rule_sets, operations, st.sampled_from(NAMES))
def test_s25_the_decision_is_that_of_the_rules(
    acls: list[Acl], rules: Rules, operation: Operation, name: str
) -> None:
    question = Question("User:alice", "10.0.0.1", operation, TOPIC, name)
    decision = decide(question, cache_of(acls), rules)
    assert decision.allowed == naive(question, acls, rules)
    if decision.acl is not None:
        assert decision.acl in acls
        assert decision.allowed == (decision.acl.entry.permission is Permission.ALLOW)


@pytest.mark.parametrize("host", ["2001:db8::1", "2001:DB8::1", "2001:db8:0:0:0:0:0:1"])
def test_s26_an_address_of_ipv6_may_be_written_in_any_form(host: str) -> None:
    cache = AclCache()
    allow_all = Entry("User:*", "*", Operation.READ, Permission.ALLOW)
    deny_host = Entry("User:*", host, Operation.READ, Permission.DENY)
    cache.replace(ResourcePattern(TOPIC, "a"), frozenset({allow_all, deny_host}))
    for address, allowed in (("2001:db8::1", False), ("2001:db8::2", True), ("10.0.0.1", True)):
        question = Question("User:alice", address, Operation.READ, TOPIC, "a")
        assert decide(question, cache, Rules()).allowed is allowed
    assert java_address("fe80::1%eth0") == "fe80:0:0:0:0:0:0:1%eth0"


def test_names_that_no_topic_can_have_are_not_kept() -> None:
    authorizer = Authorizer(AclCache(), Rules())
    client = SimpleNamespace(principal=Principal("alice"), host="10.0.0.1")
    for name in ("t", "t" * 30_000):
        assert not authorizer.authorize(client, Operation.READ, TOPIC, name, "Fetch")
    assert [key[-1] for key in authorizer._decided] == ["t"]


@given(acl_lists, operations)
def test_s27_by_type_some_resource_is_allowed(acls: list[Acl], operation: Operation) -> None:
    rules = Rules()
    by_type = decide_by_type("User:alice", "10.0.0.1", operation, TOPIC, cache_of(acls), rules)
    # Names that no literal ACL has, too: a prefix allows more than those that exist.
    names = {name + more for name in ("", *NAMES, "z") for more in ("", "q")} - {""}
    exact = [a for a in acls if a.entry.operation in (operation, Operation.ALL)]
    questions = [Question("User:alice", "10.0.0.1", operation, TOPIC, name) for name in names]
    assert by_type == any(naive(each, exact, rules) for each in questions)


@given(acl_lists, acl_lists)
def test_the_cache_finds_what_a_search_over_all_finds(before: list[Acl], after: list[Acl]) -> None:
    cache = cache_of(before)
    gone = {acl.resource for acl in before} - {acl.resource for acl in after}
    for pattern in gone:
        cache.replace(pattern, frozenset())
    for acl in after:
        cache.replace(acl.resource, cache.entries(acl.resource) | {acl.entry})
    for name in NAMES:
        found = {pattern for pattern, _ in cache.patterns(TOPIC, name)}
        assert found == {acl.resource for acl in cache if acl.resource.covers(name)}


def acl(
    name: str = "t",
    pattern: PatternType = PatternType.LITERAL,
    operation: Operation = Operation.READ,
    type_: ResourceType = TOPIC,
    permission: Permission = Permission.ALLOW,
    principal: str = "User:a",
) -> Acl:
    return Acl(ResourcePattern(type_, name, pattern), Entry(principal, "*", operation, permission))


@pytest.mark.parametrize(
    "wrong",
    [
        acl("a/b"),
        acl(""),
        acl(operation=Operation.CLUSTER_ACTION),
        acl(pattern=PatternType.MATCH),
        acl(type_=ResourceType.ANY),
        acl("other", type_=ResourceType.CLUSTER, operation=Operation.ALTER),
        acl(permission=Permission.ANY),
        acl(principal="nobody"),
    ],
    ids=str,
)
def test_s26_acls_that_kafka_refuses_are_refused(wrong: Acl) -> None:
    with pytest.raises(InvalidAcl):
        check_acl(wrong)


def test_s26_filters_match_as_in_kafka() -> None:
    literal, prefix, star = acl("abc"), acl("ab", PatternType.PREFIXED), acl("*")
    all_three = [literal, prefix, star]

    def found(**fields: Any) -> list[Acl]:
        wanted = AclFilter(TOPIC, **fields)
        return [each for each in all_three if wanted.matches(each)]

    assert found() == all_three
    assert found(resource_name="abc") == [literal]
    assert found(resource_name="abc", pattern_type=PatternType.MATCH) == all_three
    assert found(resource_name="ab", pattern_type=PatternType.PREFIXED) == [prefix]
    assert found(pattern_type=PatternType.LITERAL) == [literal, star]
    assert found(operation=Operation.WRITE) == []
