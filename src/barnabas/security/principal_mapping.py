"""`ssl.principal.mapping.rules`: how the name in a certificate becomes the name of a principal.

    RULE:^CN=(.*?),OU=Ops.*$/$1/L, DEFAULT

The first rule whose expression matches the whole name counts; DEFAULT is the name itself.
"""

import re
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError

KEY: Final = "ssl.principal.mapping.rules"
# Slashes in the expression and the replacement are escaped.
_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*")
# Python writes the name of a group otherwise than Java; both write (?<= and (?<! alike.
_NAMED_GROUP: Final = re.compile(r"\(\?<(?![=!])")


class NotMapped(Exception):
    """No rule matches the name."""


class _Rule(NamedTuple):
    pattern: "re.Pattern[str] | None"  # None: DEFAULT
    replacement: str = ""
    case: str = ""


class PrincipalMapping:
    """The rules in their order."""

    def __init__(self, text: str) -> None:
        """Raises ConfigError, which names the rule that cannot be read."""
        self._rules = list(_parse(text))

    def name_of(self, distinguished_name: str) -> str:
        """Raises NotMapped."""
        for rule in self._rules:
            if rule.pattern is None:
                return distinguished_name
            match = rule.pattern.fullmatch(distinguished_name)
            if match is not None:
                name = _replaced(rule.replacement, match)
                return {"L": name.lower(), "U": name.upper()}.get(rule.case, name)
        raise NotMapped(f"no rule of {KEY} matches {distinguished_name}")


def _parse(text: str) -> list[_Rule]:
    rules: list[_Rule] = []
    position = 0
    while position < len(text):
        match = _RULE.match(text, position)
        if match is None or text[match.end() : match.end() + 1] not in ("", ","):
            raise ConfigError(f"{KEY}: invalid rule: {text[position:]}")
        rules.append(_rule(match))
        position = match.end() + 1
    return rules or [_Rule(None)]


def _rule(match: "re.Match[str]") -> _Rule:
    default, pattern, replacement, case = match.groups()
    if default:
        return _Rule(None)
    try:
        text = _NAMED_GROUP.sub("(?P<", pattern.replace("\\/", "/"))
        compiled = re.compile(text, re.ASCII)  # as Java's \w, \d and \s
    except re.error as error:
        raise ConfigError(f"{KEY}: {pattern} is no regular expression: {error}") from None
    return _Rule(compiled, replacement.replace("\\/", "/"), case)


def _replaced(replacement: str, match: "re.Match[str]") -> str:
    def group(reference: "re.Match[str]") -> str:
        try:
            return match[int(reference[1])] or ""
        except IndexError:
            return ""

    return re.sub(r"\$(\d)", group, replacement)
