"""Regular expressions that members subscribe with, matched in time linear in the topic's name.

The syntax is RE2's, as far as it tells topic names apart. What a client sends is run in the broker,
so nothing here backtracks: an expression becomes steps, and sets of steps the states of a machine
that is built while it runs. Topic names are made of few characters, others never match.
"""

from functools import lru_cache
from typing import Final, NamedTuple

from barnabas.groups.consumer.consumer_regex_syntax import (
    BEGIN,
    END,
    Chars,
    Either,
    Node,
    Repeat,
    Row,
    parse,
)

_MOST_STEPS: Final = 10_000
_MOST_STATES: Final = 1_000

_State = tuple[int, ...]


class _Step(NamedTuple):
    """Consume one of `chars` and go on at the next step; or go on at once at each of `to`."""

    chars: frozenset[str] | None = None
    to: tuple[int, ...] = ()
    only: str | None = None  # BEGIN or END: go on only there


class TopicRegex:
    """Matches whole names."""

    def __init__(self, text: str) -> None:
        """Raises ValueError if it is no such expression, or too large a one."""
        self._steps: list[_Step] = []
        self._emit(parse(text))
        self._accept = len(self._steps)
        self._steps.append(_Step())
        self._next: dict[tuple[_State, str], _State] = {}
        self._start = self._closure([0], BEGIN)

    @staticmethod
    @lru_cache(maxsize=1_000)
    def of(text: str) -> "TopicRegex":
        return TopicRegex(text)

    def matches(self, topic: str) -> bool:
        state = self._start
        for char in topic:
            following = self._next.get((state, char))
            state = self._advance(state, char) if following is None else following
            if not state:
                return False
        at_both_ends = BEGIN + END if not topic else END
        return self._accept in self._closure(list(state), at_both_ends)

    def _advance(self, state: _State, char: str) -> _State:
        after = [
            number + 1
            for number in state
            if (chars := self._steps[number].chars) is not None and char in chars
        ]
        if len(self._next) >= _MOST_STATES:
            self._next.clear()
        following = self._next[state, char] = self._closure(after, "")
        return following

    def _closure(self, numbers: list[int], where: str) -> _State:
        """All steps that can be reached from there without consuming anything."""
        seen, waiting = set(numbers), list(numbers)
        while waiting:
            step = self._steps[waiting.pop()]
            if step.only is None or step.only in where:
                fresh = [number for number in step.to if number not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
        return tuple(sorted(seen))

    # -- from the expression to steps -------------------------------------------------------------

    def _add(self, step: _Step) -> int:
        if len(self._steps) >= _MOST_STEPS:
            raise ValueError("the expression is too large")
        self._steps.append(step)
        return len(self._steps) - 1

    def _emit(self, node: Node) -> None:
        """Append steps that end by going on to whatever is appended after them."""
        if isinstance(node, Chars):
            self._add(_Step(node.chars))
        elif isinstance(node, str):
            here = self._add(_Step())
            self._steps[here] = _Step(None, (here + 1,), node)
        elif isinstance(node, Row):
            for part in node.parts:
                self._emit(part)
        elif isinstance(node, Either):
            self._emit_either(node)
        else:
            self._emit_repeat(node)

    def _emit_either(self, node: Either) -> None:
        fork, ends, begins = self._add(_Step()), [], []
        for choice in node.choices:
            begins.append(len(self._steps))
            self._emit(choice)
            ends.append(self._add(_Step()))
        self._steps[fork] = _Step(None, tuple(begins))
        for end in ends:
            self._steps[end] = _Step(None, (len(self._steps),))

    def _emit_repeat(self, node: Repeat) -> None:
        for _ in range(node.least):
            self._emit(node.part)
        if node.most is None:
            fork = self._add(_Step())
            self._emit(node.part)
            self._add(_Step(None, (fork,)))
            self._steps[fork] = _Step(None, (fork + 1, len(self._steps)))
            return
        forks = []
        for _ in range(node.most - node.least):
            forks.append(self._add(_Step()))
            self._emit(node.part)
        for fork in forks:
            self._steps[fork] = _Step(None, (fork + 1, len(self._steps)))
