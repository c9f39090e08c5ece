"""A config key: its name, type, default and valid values, as in Kafka.

A value is stored as text (in a properties file, in a znode, in DescribeConfigs) and used as a
Python value. `ConfigKey.parse` and `ConfigKey.render` convert between them in Kafka's format,
including Java's format of a double.
"""

import sys
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from barnabas.base.errors import ConfigError

Value = bool | int | float | str | tuple[str, ...] | None


class ConfigType(IntEnum):
    """The type of a key, with its number in DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """The source of a value, with its number in DescribeConfigs; the smallest has precedence."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6


class UpdateMode(Enum):
    """The reach of a new value that a running broker accepts: none, one broker, or also all."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Validator(NamedTuple):
    """A limit on values: its text in the documentation, and the complaint about a value."""

    shown: str
    complaint: Callable[[Value], str | None]


class ConfigSynonym(NamedTuple):
    """One source of a value, and the key's name there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One entry of DescribeConfigs; the value of a sensitive key is None."""

    name: str
    value: str | None
    source: ConfigSource
    synonyms: tuple[ConfigSynonym, ...]
    type: ConfigType
    read_only: bool
    sensitive: bool
    documentation: str | None


class ConfigKey(NamedTuple):
    """The definition of one key."""

    name: str
    type: ConfigType
    default: Value
    validator: Validator | None
    importance: str
    update: UpdateMode
    internal: bool  # described only if it is set
    served: bool  # the broker acts on it; other keys are accepted and ignored
    documentation: str

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def default_text(self) -> str | None:
        return self.render(self.default)

    def parse(self, text: str) -> Value:
        """Parse and validate `text`.

        Raises  ConfigError with Kafka's message, which has key and value (but never a password)
        """
        trimmed = text.strip()
        value = _parse(self.type, trimmed)
        if value is None:
            raise invalid_value(self.name, trimmed, _EXPECTED[self.type])
        complaint = self.validator.complaint(value) if self.validator else None
        if complaint:
            raise invalid_value(self.name, "[hidden]" if self.sensitive else trimmed, complaint)
        return value

    def render(self, value: Value) -> str | None:
        """`value` as text in the format of DescribeConfigs, which `parse` accepts."""
        match value:
            case None | str():
                return value
            case bool():
                return "true" if value else "false"
            case float():
                return _java_double(value)
            case tuple():
                return ",".join(value)
        return str(value)


def invalid_value(name: str, value: object, why: str) -> ConfigError:
    return ConfigError(f"Invalid value {value} for configuration {name}: {why}")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append to an unknown name; empty if no known name is similar."""
    from difflib import get_close_matches  # only needed after a typing error

    near = get_close_matches(name, sorted(known), n=1, cutoff=0.75)
    return f" (did you mean {near[0]}?)" if near else ""


_INTEGER_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}

_EXPECTED: Final = {
    ConfigType.BOOLEAN: "Expected value to be either true or false",
    ConfigType.SHORT: "Not a number of type SHORT",
    ConfigType.INT: "Not a number of type INT",
    ConfigType.LONG: "Not a number of type LONG",
    ConfigType.DOUBLE: "Not a number of type DOUBLE",
}


def _parse(type_: ConfigType, text: str) -> Value:
    """The value, or None if `text` is not of the type."""
    match type_:
        case ConfigType.BOOLEAN:
            return {"true": True, "false": False}.get(text.lower())
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            return _parse_integer(text, _INTEGER_BITS[type_])
        case ConfigType.DOUBLE:
            return _parse_double(text)
        case ConfigType.LIST:
            return tuple(part.strip() for part in text.split(",")) if text else ()
    return text


def _parse_integer(text: str, bits: int) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return None  # int() also accepts underscores and the digits of other alphabets
    # Twenty digits hold every 64-bit number; Python may refuse int() of a longer text.
    value = int(text) if len(digits) <= 20 else sys.maxsize + 1
    return value if -(1 << bits - 1) <= value < 1 << bits - 1 else None


def _parse_double(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    finite = value - value == 0.0
    return value if finite and "_" not in text else None


def _java_double(value: float) -> str:
    """The format of java.lang.Double.toString, with which clients compare."""
    if value == 0.0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    shortest = next(s for p in range(18) if float(s := f"{value:.{p}e}") == value)
    mantissa, exponent = shortest.split("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"
