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


def colliding(name: str, others: Iterable[str]) -> list[str]:
    """Those of `others` that differ from `name` only in '.' and '_', equal in metrics."""
    folded = name.replace(".", "_")
    return [other for other in others if other.replace(".", "_") == folded and other != name]
