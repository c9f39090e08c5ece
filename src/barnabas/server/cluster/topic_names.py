"""Legal topic names, and collisions of names in metrics."""

import re
from collections.abc import Iterable
from typing import Final

from barnabas.base.errors import BrokerError, ErrorCode

LONGEST: Final = 249
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises BrokerError(invalid_topic_exception) that says what is wrong with `name`."""
    if not name:
        wrong = "the empty string is not allowed"
    elif name in (".", ".."):
        wrong = f"'{name}' is not allowed"
    elif len(name) > LONGEST:
        wrong = f"the length of '{name}' is longer than the max allowed length {LONGEST}"
    elif not _LEGAL.fullmatch(name):
        wrong = (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    else:
        return
    raise BrokerError(ErrorCode.invalid_topic_exception, f"Topic name is invalid: {wrong}")


def is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except BrokerError:
        return False
    return True


class TopicNames:
    """Names of topics, to find those that differ only in '.' and '_': they are equal in metrics."""

    def __init__(self, names: Iterable[str]) -> None:
        self._folded: dict[str, list[str]] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        if "." in name or "_" in name:
            self._folded.setdefault(name.replace(".", "_"), []).append(name)

    def colliding(self, name: str) -> list[str]:
        """The other names that collide with this one."""
        return [other for other in self._folded.get(name.replace(".", "_"), ()) if other != name]
