"""`ssl.principal.mapping.rules`, by the examples of Kafka's documentation."""

import pytest

from barnabas.base.errors import ConfigError
from barnabas.security.principal_mapping import NotMapped, PrincipalMapping

RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=serviceuser,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "serviceuser"),
        ("CN=adminUser,OU=Admin,O=Unknown,L=Unknown,ST=Unknown,C=Unknown", "adminuser@admin"),
        ("O=x,cn=kafka1", "KAFKA1"),
        ("O=nobody", "O=nobody"),
    ],
)
def test_s7_the_first_rule_that_matches_the_whole_name_counts(name: str, mapped: str) -> None:
    assert PrincipalMapping(RULES).name_of(name) == mapped


def test_s7_without_default_an_unmatched_name_has_no_principal() -> None:
    with pytest.raises(NotMapped):
        PrincipalMapping("RULE:^CN=a$/x/").name_of("CN=b")
    assert PrincipalMapping("DEFAULT").name_of("CN=b") == "CN=b"


def test_s7_rules_mean_what_they_mean_in_java() -> None:
    before = PrincipalMapping("RULE:.*(?<=CN=)(?<name>\\w+).*/$1/,DEFAULT")
    assert before.name_of("CN=alice,O=x") == "alice"
    assert before.name_of("CN=\u0430lice") == "CN=\u0430lice"  # \\w is no Cyrillic letter
    assert PrincipalMapping("RULE:(?!CN=root).*(?<!,O=x)/anyone/").name_of("CN=a") == "anyone"


@pytest.mark.parametrize("rules", ["deny", "RULE:a", "RULE:(/x/", "DEFAULT/L", "RULE:a/b/X"])
def test_s7_rules_that_cannot_be_read_are_refused(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        PrincipalMapping(rules)
