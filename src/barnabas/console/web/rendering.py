"""Templates: Jinja with the console's filters, relative links and blocks for live updates."""

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from barnabas.cli.show import counted, show_bytes
from barnabas.console.cluster.groups import LeftOut

ROOT: Final = Path(__file__).parent.parent
STATIC: Final = ROOT / "static"
NOTHING: Final = "\N{EN DASH}"
_NAMED: Final = 3
_TURNS: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_UNLIMITED: Final = 2**63 - 1
_KIB: Final = 1024
_UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1_000, "second"))
_LIVE_BEGINS: Final = "<!-- live -->"
_LIVE_ENDS: Final = "<!-- /live -->"


def relative_root(path: str) -> str:
    """The way from a page to the console's root, so that it works below any proxy path."""
    return "../" * (path.count("/") - 1) or "./"


def number(value: object) -> str:
    """A count with separators; a dash where it is unknown."""
    if value is None:
        return NOTHING
    if isinstance(value, float):
        return f"{value:,.1f}" if 0 < value < 100 else f"{value:,.0f}"
    return f"{value:,}"


def size(value: int | None) -> str:
    return NOTHING if value is None else show_bytes(value)


def duration(value_ms: float | None) -> str:
    """Milliseconds with as many digits as one can act on."""
    if value_ms is None:
        return NOTHING
    digits = 0 if value_ms >= 100 or value_ms == int(value_ms) else 2
    return f"{value_ms:,.{digits}f} ms"


def reading(name: str, value: str | None) -> str:
    """A config's value in the units that people think in; empty where it has none."""
    if value is None or not value.isdecimal():
        return ""
    number = int(value)
    if number == _UNLIMITED:
        return "no limit"
    if name.endswith(".bytes") and number >= _KIB:
        return show_bytes(number)
    whole = [(number // ms, noun) for ms, noun in _UNITS if number and number % ms == 0]
    return counted(*whole[0]) if name.endswith(".ms") and whole else ""


def moment(timestamp_ms: int | None) -> Markup | str:
    """A time element: UTC as it is sent, the reader's zone once the page runs."""
    return _time(timestamp_ms, Markup('<time datetime="{}" title="{} UTC">{}</time>'))


def instant(timestamp_ms: int | None) -> Markup | str:
    """The same with milliseconds."""
    return _time(timestamp_ms, Markup('<time datetime="{}" title="{} UTC" data-ms>{}</time>'))


def utc(timestamp_ms: int | None) -> Markup | str:
    """The text of a time in UTC."""
    return _time(timestamp_ms, Markup("{1}"))


def _time(timestamp_ms: int | None, form: Markup) -> Markup | str:
    if timestamp_ms is None or timestamp_ms < 0:
        return NOTHING
    try:
        at = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)
    text = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    words = text.replace("T", " ")
    return form.format(text, words.removesuffix("Z"), words)


def query(**values: object) -> str:
    """The query of a URL; values that are None are left out."""
    given = {key: value for key, value in values.items() if value is not None}
    return f"?{urlencode(given)}"


def breakable(name: str) -> Markup:
    """A config's name, which may break after its dots."""
    return Markup(".<wbr>").join(name.split("."))


def left_out(found: Sequence[LeftOut]) -> str:
    """Partitions that a lag leaves out, by the reason: some by name, and how many."""
    by_why: dict[str, list[str]] = {}
    for each in found:
        by_why.setdefault(each.why, []).append(str(each.partition))
    return "; ".join(f"without {_named(names)}: {why}" for why, names in by_why.items())


def _named(names: list[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names):,} partitions ({', '.join(names[:_NAMED])}, …)"


def sentence(text: str) -> str:
    """A failure with a capital in front, unless it begins with the name of a thing."""
    first = text.partition(" ")[0]
    return text[:1].upper() + text[1:] if first.isalpha() else text


def ids(brokers: object) -> str:
    """Brokers as `1, 2, 3`."""
    return ", ".join(map(str, brokers)) if isinstance(brokers, list | tuple) else str(brokers)


def visible(text: str) -> str:
    """A name in a line of other words: characters that would turn their order are escaped."""
    return _TURNS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(ROOT / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "size": size,
        "duration": duration,
        "moment": moment,
        "instant": instant,
        "utc": utc,
        "ids": ids,
        "sentence": sentence,
        "left_out": left_out,
        "breakable": breakable,
        "visible": visible,
        "json": lambda value: json.dumps(value, separators=(",", ":")),
    }
    environment.globals |= {"query": query, "reading": reading, "assets": _fingerprint()}
    return environment


def _fingerprint() -> str:
    """Changes with the assets, so that browsers may keep them for long."""
    digest = blake2b(digest_size=6)
    for path in sorted(STATIC.iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class Templates:
    """The console's templates."""

    def __init__(self) -> None:
        self._environment = _environment()

    def page(self, name: str, context: Mapping[str, Any]) -> str:
        return self._environment.get_template(name).render(context)

    def live(self, name: str, context: Mapping[str, Any]) -> str:
        """The part of a page that live updates send."""
        _, _, after = self.page(name, context).partition(_LIVE_BEGINS)
        return after.partition(_LIVE_ENDS)[0].strip()
