"""The parser of config key tables, which read like documentation.

A key is one line of words, and its documentation is indented below:

    num.partitions int 1 >=1 medium acts
        Partitions of a topic that is created without saying how many.

The words: name, type, default, limit, importance; then any of
    per-broker, cluster-wide    a running broker accepts new values (read-only otherwise)
    internal                    described only if it is set
    acts                        the broker acts on it (otherwise it is accepted and ignored)
A default of `null` is no value, `""` is the empty text. A limit of `-` is none; the others are
`>=1`, `0..1`, `a|b` (one of, or a list of them) and the names in `_NAMED`.
"""

from typing import Final

from barnabas.config.config_key import ConfigKey, ConfigType, UpdateMode, Validator, Value

# The inter-broker protocol versions of Kafka 3.9: each release, with the last of its variants.
_VERSIONS: Final = """
    0.8.0 0.8.1 0.8.2 0.9.0 0.10.0-IV1 0.10.1-IV2 0.10.2-IV0 0.11.0-IV2 1.0-IV0 1.1-IV0 2.0-IV1
    2.1-IV2 2.2-IV1 2.3-IV1 2.4-IV1 2.5-IV0 2.6-IV0 2.7-IV2 2.8-IV1 3.0-IV1 3.1-IV0 3.2-IV0
    3.3-IV3 3.4-IV0 3.5-IV2 3.6-IV2 3.7-IV4 3.8-IV0 3.9-IV0
"""
_LAST_VARIANT: Final = {
    release: int(last or -1)
    for release, _, last in (version.partition("-IV") for version in _VERSIONS.split())
}


def read_keys(table: str) -> dict[str, ConfigKey]:
    """The keys of a table by name, in its order."""
    keys: dict[str, ConfigKey] = {}
    words: list[str] = []
    sentences: list[str] = []
    for line in [*table.splitlines(), "."]:
        if line.startswith(" "):
            sentences.append(line.strip())
        elif line:
            if words:
                key = _read_key(words, " ".join(sentences))
                keys[key.name] = key
            words, sentences = line.split(), []
    return keys


def _read_key(words: list[str], documentation: str) -> ConfigKey:
    name, type_name, default, limit, importance, *flags = words
    type_ = ConfigType[type_name.upper()]
    update = next((mode for mode in UpdateMode if mode.value in flags), UpdateMode.READ_ONLY)
    key = ConfigKey(
        name=name,
        type=type_,
        default=None,
        validator=_read_limit(limit),
        importance=importance,
        update=update,
        internal="internal" in flags,
        served="acts" in flags,
        documentation=documentation,
    )
    if default == "null":
        return key
    return key._replace(default=key.parse("" if default == '""' else default))


def _read_limit(limit: str) -> Validator | None:
    if limit == "-":
        return None
    if limit in _NAMED:
        return _NAMED[limit]
    if limit.startswith(">="):
        return _at_least(_number(limit[2:]))
    low, dots, high = limit.partition("..")
    if dots:
        return _between(_number(low), _number(high))
    return _one_of(limit.split("|"))


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _at_least(low: float) -> Validator:
    def complaint(value: Value) -> str | None:
        below = isinstance(value, int | float) and value < low
        return f"Value must be at least {low}" if below else None

    return Validator(f"[{low},...]", complaint)


def _between(low: float, high: float) -> Validator:
    at_least = _at_least(low)

    def complaint(value: Value) -> str | None:
        above = isinstance(value, int | float) and value > high
        return f"Value must be no more than {high}" if above else at_least.complaint(value)

    return Validator(f"[{low},...,{high}]", complaint)


def _one_of(allowed: list[str]) -> Validator:
    def complaint(value: Value) -> str | None:
        given = value if isinstance(value, tuple) else (value,)
        unknown = any(item not in allowed for item in given)
        return f"String must be one of: {', '.join(allowed)}" if unknown else None

    return Validator(f"[{', '.join(allowed)}]", complaint)


def _gzip_level(value: Value) -> str | None:
    fits = value == -1 or (isinstance(value, int) and 1 <= value <= 9)
    return None if fits else "Value must be between 1 and 9 or equal to -1"


def _protocol_version(value: Value) -> str | None:
    text = str(value)
    segments = text.split(".")
    # "3.9.1" means 3.9, but releases before 1.0 have three numbers.
    release, dash, variant = ".".join(segments[: 3 if text[:2] == "0." else 2]).partition("-IV")
    last = _LAST_VARIANT.get(release)
    fits = last is not None and (not dash or variant in map(str, range(last + 1)))
    return None if fits else f"Version {text} is not a valid version"


def _throttled_replicas(value: Value) -> str | None:
    items = value if isinstance(value, tuple) else ()
    if items == ("*",) or all(_is_partition_and_broker(item) for item in items):
        return None
    return (
        "must be the literal '*' or a list of replicas in the following format:"
        " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _is_partition_and_broker(item: str) -> bool:
    partition, _, broker = item.partition(":")
    return not item or (item.isascii() and partition.isdigit() and broker.isdigit())


_NAMED: Final = {
    "gzip-level": Validator("[1,...,9] or -1", _gzip_level),
    "protocol-version": Validator("a Kafka version, such as 3.9 or 3.9-IV0", _protocol_version),
    "throttled-replicas": Validator("[partitionId]:[brokerId],... or *", _throttled_replicas),
}
