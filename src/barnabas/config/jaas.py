"""JAAS login modules, as Kafka's `sasl.jaas.config` writes them.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice" password="secret";

Only the options are used. Nothing is ever loaded by the name of a module.
"""

import re
from typing import Final

from barnabas.base.errors import ConfigError

_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>[=;])|(?P<word>[^\s"'=;]+))""",
    re.DOTALL,
)
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")


def jaas_options(text: str, key: str = "sasl.jaas.config") -> dict[str, str]:
    """The options of the one login module in `text`.

    Raises  ConfigError, which begins with `key` and never contains a value
    """
    words = _words(text, key)
    if words and words[-1] == (";", False):
        words.pop()
    if len(words) < 2 or words[1][0].lower() not in _FLAGS:
        raise ConfigError(f'{key} must be: LOGIN_MODULE required name="value" ...;')
    options: dict[str, str] = {}
    rest = words[2:]
    if len(rest) % 3:
        raise ConfigError(f'{key}: each option of the login module must be name="value"')
    for (name, _), equals, (value, _) in zip(rest[::3], rest[1::3], rest[2::3], strict=True):
        if equals != ("=", False):
            raise ConfigError(f'{key}: each option of the login module must be name="value"')
        options[name] = value
    return options


def jaas_text(module: str, options: dict[str, str]) -> str:
    """The login module with these options, in the form that `jaas_options` and Java read."""
    pairs = "".join(f' {name}="{_escaped(value)}"' for name, value in options.items())
    return f"{module} required{pairs};"


def _words(text: str, key: str) -> list[tuple[str, bool]]:
    """The words of `text`, and whether each was quoted."""
    found: list[tuple[str, bool]] = []
    position, text = 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ConfigError(f"{key}: a quotation mark is not closed")
        quoted = match["quoted"]
        if quoted is not None:
            found.append((re.sub(r"\\(.)", r"\1", quoted[1:-1], flags=re.DOTALL), True))
        else:
            found.append((match["mark"] or match["word"], False))
        position = match.end()
    return found


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
