"""The promise of the name `decide_`: state, request and time go in, a decision comes out.

A function of that name does not suspend, returns something, and changes nothing that it is given.
The test follows the names of a function's parameters and what it reads from them; it does not
follow calls.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
DECIDES: Final = re.compile(r"_?decide(_|$)")
# A decide_ function takes none of these: they change when they are used.
CHANGED_BY_USE: Final = re.compile(r"\b(\w*Turn|Random|Waiter)\b")
CHANGING: Final = re.compile(
    "add|append(left)?|clear|discard|extend|insert|pop(item|left)?|remove|reverse|setdefault|sort|"
    "update"
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_no_decision_changes_what_it_is_given() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line} {what}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        if "def decide" in (text := path.read_text()) or "def _decide" in text
        for line, what in impure(text)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def impure(source: str) -> Iterator[tuple[int, str]]:
    """The lines of a module on which a `decide_` function breaks the promise."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function) and DECIDES.match(node.name):
            if isinstance(node, ast.AsyncFunctionDef):
                yield node.lineno, f"{node.name} suspends"
            if node.returns is None or ast.unparse(node.returns) == "None":
                yield node.lineno, f"{node.name} returns no decision"
            for parameter in parameters(node):
                annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
                if CHANGED_BY_USE.search(annotation):
                    yield node.lineno, f"{node.name} takes {parameter.arg}: {annotation}"
            yield from changes(node)


def parameters(function: Function) -> list[ast.arg]:
    given = function.args
    return [*given.posonlyargs, *given.args, *given.kwonlyargs]


def changes(function: Function) -> Iterator[tuple[int, str]]:
    theirs = names_of_given(function)
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.Delete):
            targets = [each for target in node.targets for each in unpacked(target)]
        elif isinstance(node, ast.AugAssign | ast.AnnAssign):
            targets = [node.target]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and CHANGING.fullmatch(node.func.attr)
        ):
            targets = [node.func]
        else:
            continue
        for target in targets:
            if is_read_from(theirs, target):
                yield target.lineno, f"{function.name} changes {ast.unparse(target)}"


def names_of_given(function: Function) -> set[str]:
    """The parameters, and the variables that name a part of one."""
    names = {each.arg for each in parameters(function)}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and is_read_from(names, node.value):
            targets = (each for target in node.targets for each in unpacked(target))
            names |= {each.id for each in targets if isinstance(each, ast.Name)}
    return names


def unpacked(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple) else [target]


def is_read_from(names: set[str], node: ast.expr) -> bool:
    """True for an expression such as `turn.group.members[0]`, if `turn` is one of the names."""
    if not isinstance(node, ast.Attribute | ast.Subscript):
        return False
    whole = node.value
    return is_read_from(names, whole) or (isinstance(whole, ast.Name) and whole.id in names)


def test_the_rule_sees_each_way_to_break_the_promise() -> None:
    def seen(body: str, signature: str = "(group, now_ms: int) -> int") -> bool:
        return any(impure(f"def decide_end{signature}:\n    {body}\n"))

    assert seen("group.epoch = 1")
    assert seen("members = group.members; members[0] = now_ms")
    assert seen("group.members.pop(0)")
    assert seen("del group.members[0]")
    assert seen("group.epoch, n = 1, 2")
    assert seen("pass", "(group) -> None")
    assert seen("return 1", "(turn: ConsumerTurn) -> int")
    assert any(impure("async def decide_end() -> int: ..."))
    assert any(impure("class A:\n    def _decide(self) -> int:\n        self.count += 1"))


def test_the_rule_lets_a_decision_build_its_result() -> None:
    assert not list(
        impure(
            "def decide_end(group) -> list[int]:\n"
            "    found = []\n"
            "    for each in group.members:\n"
            "        found.append(each)\n"
            "    return found\n"
            "def end(group) -> None:\n"
            "    group.epoch += 1\n"
        )
    )
