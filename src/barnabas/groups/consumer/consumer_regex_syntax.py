"""The syntax of regular expressions over topic names: text to a tree."""

import re
import string
from typing import Final, NamedTuple, TypeAlias

BEGIN: Final = "^"
END: Final = "$"

_WORD: Final = frozenset(string.ascii_letters + string.digits + "_")
_DIGIT: Final = frozenset(string.digits)
_ALL: Final = _WORD | frozenset(".-")
_CLASSES: Final = {
    "d": _DIGIT,
    "w": _WORD,
    "s": frozenset[str](),
    "D": _ALL - _DIGIT,
    "W": _ALL - _WORD,
    "S": _ALL,
}
_POSIX: Final = {
    "alnum": _WORD - {"_"},
    "alpha": frozenset(string.ascii_letters),
    "digit": _DIGIT,
    "lower": frozenset(string.ascii_lowercase),
    "upper": frozenset(string.ascii_uppercase),
    "punct": frozenset("._-"),
    "word": _WORD,
}
_ASSERTIONS: Final = {"A": BEGIN, "z": END}
_COUNT: Final = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}")
_GROUP: Final = re.compile(r"\((?:\?(?:P?<\w+>|([a-zA-Z]*):))?")
_FLAGS: Final = re.compile(r"\(\?([imsU]+)\)")
_POSIX_CLASS: Final = re.compile(r"\[:(\^?)([a-z]+):\]")
_MOST_REPEATS: Final = 1_000
_DEEPEST: Final = 100


class Chars(NamedTuple):
    chars: frozenset[str]


class Row(NamedTuple):
    parts: tuple["Node", ...]


class Either(NamedTuple):
    choices: tuple["Node", ...]


class Repeat(NamedTuple):
    part: "Node"
    least: int
    most: int | None


Node: TypeAlias = Chars | Row | Either | Repeat | str  # a str is BEGIN or END


def parse(text: str) -> Node:
    """Raises ValueError, which says where and why, if it is no such expression."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        self._any_case = False

    def whole(self) -> Node:
        node = self._either()
        if self._at < len(self._text):
            raise self._wrong("a parenthesis that was not opened")
        return node

    def _either(self) -> Node:
        choices = [self._row()]
        while self._take("|"):
            choices.append(self._row())
        return choices[0] if len(choices) == 1 else Either(tuple(choices))

    def _row(self) -> Node:
        parts: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            flags = _FLAGS.match(self._text, self._at)
            if flags is not None:
                self._any_case |= "i" in flags[1]
                self._at = flags.end()
                continue
            parts.append(self._repeated(self._atom()))
        return Row(tuple(parts))

    def _repeated(self, node: Node) -> Node:
        while self._at < len(self._text):
            bounds = self._bounds()
            if bounds is None:
                return node
            self._take("?")  # lazy: it matches the same names
            node = Repeat(node, *bounds)
        return node

    def _bounds(self) -> tuple[int, int | None] | None:
        simple = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._text[self._at])
        if simple is not None:
            self._at += 1
            return simple
        counted = _COUNT.match(self._text, self._at)
        if counted is None:
            return None
        self._at = counted.end()
        least = int(counted[1])
        most = (int(counted[3]) if counted[3] else None) if counted[2] else least
        if max(least, most or 0) > _MOST_REPEATS or (most is not None and most < least):
            raise self._wrong("a count that cannot be")
        return least, most

    def _atom(self) -> Node:
        char = self._text[self._at]
        if char == "(":
            return self._group()
        self._at += 1
        if char == "[":
            return self._class()
        if char == "\\":
            return self._escape()
        if char in "*+?":
            raise self._wrong("a repetition of nothing")
        if char in (BEGIN, END):
            return char
        return Chars(_ALL) if char == "." else self._literal(char)

    def _group(self) -> Node:
        opened = _GROUP.match(self._text, self._at)
        self._depth += 1
        if opened is None or self._depth > _DEEPEST or self._text[opened.end() :][:1] == "?":
            raise self._wrong("a group of an unknown kind, or one too deep")
        self._at = opened.end()
        any_case = self._any_case
        self._any_case |= "i" in (opened[1] or "")
        node = self._either()
        if not self._take(")"):
            raise self._wrong("a parenthesis that is not closed")
        self._depth -= 1
        self._any_case = any_case
        return node

    def _literal(self, char: str) -> Chars:
        either = (char.lower(), char.upper()) if self._any_case else (char,)
        return Chars(frozenset(either))

    def _escape(self) -> Node:
        char = self._next("an escape of nothing")
        if char in _ASSERTIONS:
            return _ASSERTIONS[char]
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        if char.isalnum():
            raise self._wrong(f"an unknown escape \\{char}")
        return self._literal(char)

    def _class(self) -> Node:
        negated = self._take("^")
        chars: frozenset[str] = frozenset()
        is_first = True
        while is_first or not self._take("]"):
            chars |= self._class_part()
            is_first = False
        if self._any_case:
            chars |= {char.swapcase() for char in sorted(chars)}
        return Chars(_ALL - chars if negated else chars)

    def _class_part(self) -> frozenset[str]:
        posix = _POSIX_CLASS.match(self._text, self._at)
        if posix is not None and posix[2] in _POSIX:
            self._at = posix.end()
            named = _POSIX[posix[2]]
            return _ALL - named if posix[1] else named
        low = self._class_char()
        if isinstance(low, frozenset):
            return low
        if self._text[self._at : self._at + 1] != "-" or self._text[self._at + 1 :][:1] == "]":
            return frozenset(low)
        self._at += 1
        high = self._class_char()
        if isinstance(high, frozenset) or high < low:
            raise self._wrong("a range that cannot be")
        return frozenset(char for char in sorted(_ALL) if low <= char <= high)

    def _class_char(self) -> str | frozenset[str]:
        char = self._next("a bracket that is not closed")
        if char != "\\":
            return char
        escaped = self._escape()
        if not isinstance(escaped, Chars):
            raise self._wrong("an escape that has no place here")
        return next(iter(escaped.chars)) if len(escaped.chars) == 1 else escaped.chars

    def _next(self, otherwise: str) -> str:
        if self._at >= len(self._text):
            raise self._wrong(otherwise)
        self._at += 1
        return self._text[self._at - 1]

    def _take(self, char: str) -> bool:
        taken = self._text.startswith(char, self._at)
        self._at += taken
        return taken

    def _wrong(self, what: str) -> ValueError:
        return ValueError(f"{what}, at character {self._at} of {self._text!r}")
