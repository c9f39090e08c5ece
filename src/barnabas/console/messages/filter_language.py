"""The language of message filters: comparisons of a message's fields, evaluated step by step.

`value.total > 100 and headers["source"] == "web"`. The text is parsed by Python's parser, but
only the operations below exist: there are no attributes of objects, no imports, no loops. A field
that a message lacks is None, and a comparison with None is false.
"""

import ast
import json
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import re2

from barnabas.base.errors import BarnabasError

_LONGEST: Final = 2_000
_DEEPEST: Final = 100
_COMPARES: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}
_MATHS: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_QUIET: Final = re2.Options()
_QUIET.log_errors = False
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    "len": len,
    "int": int,
    "float": float,
    "str": str,
    "lower": lambda text: str(text).lower(),
    "upper": lambda text: str(text).upper(),
    "startswith": lambda text, start: str(text).startswith(str(start)),
    "endswith": lambda text, end: str(text).endswith(str(end)),
    "contains": lambda text, part: str(part) in str(text),
    "matches": lambda text, pattern: re2.search(pattern, str(text), _QUIET) is not None,
}
_FIELDS: Final = ("key", "value", "headers", "partition", "offset", "timestamp")
_PATH: Final = re.compile(r"\.([A-Za-z_]\w*)|\[(\d+)\]|\[['\"]([^'\"]+)['\"]\]")
Message = Mapping[str, Any]


class WrongFilter(BarnabasError):
    """The filter cannot be meant; the text says where it is wrong."""


def compile_filter(kind: str, text: str) -> Callable[[Message], bool]:
    """The filter of this kind: key, value, header, path or expression. Raises WrongFilter."""
    if len(text) > _LONGEST:
        raise WrongFilter(f"a filter has {_LONGEST} characters at most")
    if "\0" in text:  # which no argument of a process has
        raise WrongFilter("a filter has no zero byte")
    wanted = text.lower()
    match kind:
        case "key":
            return lambda message: wanted in (message["key"] or "").lower()
        case "value":
            return lambda message: wanted in (message["value"] or "").lower()
        case "header":
            return lambda message: any(wanted in each.lower() for each in _headers(message))
        case "path":
            return _compile_path(text)
        case "expression":
            return _compile_expression(text)
        case _:
            raise WrongFilter(f"there is no filter by {kind}")


def _headers(message: Message) -> list[str]:
    return [f"{name}={value}" for name, value in message["headers"]]


def _compile_path(text: str) -> Callable[[Message], bool]:
    """`$.customer.name = Ada`, or a path alone, which must lead to something."""
    path, equals, wanted = (part.strip() for part in text.partition("="))
    steps = _PATH.findall(path.removeprefix("$"))
    if not path.startswith("$") or "".join(map(_step_text, steps)) != _plain_path(path[1:]):
        raise WrongFilter(f"{path}: expected a path such as $.customer.name or $.lines[0].sku")

    def keeps(message: Message) -> bool:
        found = _parsed(message["value"])
        for name, number, quoted in steps:
            found = _item(found, int(number) if number else name or quoted)
        if not equals:
            return found is not None
        return json.dumps(found, ensure_ascii=False) == wanted or str(found) == wanted.strip(
            "="
        ).strip().strip("\"'")

    return keeps


def _step_text(step: tuple[str, str, str]) -> str:
    name, number, quoted = step
    return f"[{number}]" if number else f".{name}" if name else f"['{quoted}']"


def _plain_path(path: str) -> str:
    return path.replace('"', "'")


def _compile_expression(text: str) -> Callable[[Message], bool]:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError as wrong:
        raise WrongFilter(
            f"the expression cannot be read at character {wrong.offset}: {wrong.msg}"
        ) from None
    except (ValueError, RecursionError, MemoryError) as wrong:
        raise WrongFilter(f"the expression cannot be read: {wrong}") from None
    _check(tree)
    _check_depth(tree)

    def keeps(message: Message) -> bool:
        names = {
            **message,
            "value": _parsed(message["value"]),
            "key": _parsed(message["key"]),
            "headers": dict(message["headers"]),  # of headers with one name the last
        }
        try:
            return bool(_evaluate(tree, names))
        except (TypeError, ValueError, ArithmeticError, re2.error):
            return False  # the message has no such field, or it is of another type

    return keeps


def _check(tree: ast.expr) -> None:
    """Raises WrongFilter for anything that the language does not have"""
    called = []
    for node in ast.walk(tree):  # a call comes before its function's name
        if isinstance(node, ast.Call):
            is_known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
            if not is_known or node.keywords:
                raise WrongFilter(f"functions are {', '.join(_FUNCTIONS)}")
            called.append(node.func)
            _check_pattern(node)
        if isinstance(node, ast.Name) and node not in called and node.id not in _FIELDS:
            raise WrongFilter(f"{node.id} is not one of {', '.join(_FIELDS)}")
        if not isinstance(node, _NODES):
            raise WrongFilter(f"{type(node).__name__} is not part of the language of filters")


def _check_depth(tree: ast.expr) -> None:
    """Raises WrongFilter for an expression that Python could not evaluate step by step"""
    level: list[ast.AST] = [tree]
    depth = 0
    while level := [child for node in level for child in ast.iter_child_nodes(node)]:
        depth += 1
        if depth > _DEEPEST:
            raise WrongFilter(f"an expression has {_DEEPEST} levels at most")


def _check_pattern(call: ast.Call) -> None:
    match call:
        case ast.Call(func=ast.Name(id="matches"), args=[_, ast.Constant(value=str(pattern))]):
            try:
                re2.compile(pattern, _QUIET)
            except re2.error as wrong:
                raise WrongFilter(f"the pattern {pattern}: {_words(wrong)}") from None


def _words(wrong: re2.error) -> str:
    (said,) = wrong.args or ("it cannot be read",)
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


_NODES: Final = (
    ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.Compare, *_COMPARES,
    ast.BinOp, *_MATHS, ast.Constant, ast.Name, ast.Load, ast.Attribute, ast.Subscript,
    ast.Call, ast.List, ast.Tuple,
)  # fmt: skip


def _evaluate(node: ast.expr, names: Message) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(value=inner, attr=name):
            return _item(_evaluate(inner, names), name)
        case ast.Subscript(value=inner, slice=index):
            return _item(_evaluate(inner, names), _evaluate(index, names))
        case ast.BoolOp(op=ast.And(), values=values):
            return all(_evaluate(each, names) for each in values)
        case ast.BoolOp(values=values):
            return any(_evaluate(each, names) for each in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _evaluate(operand, names)
        case ast.UnaryOp(operand=operand):
            return -_evaluate(operand, names)
        case ast.BinOp(left=left, op=op, right=right):
            return _calculate(type(op), _evaluate(left, names), _evaluate(right, names))
        case ast.Compare():
            return _compare(node, names)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_evaluate(each, names) for each in arguments))
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_evaluate(each, names) for each in elements]
        case _:
            raise TypeError(type(node).__name__)


def _calculate(op: type[ast.operator], left: Any, right: Any) -> Any:
    """Raises TypeError for anything but numbers, except texts that are joined"""
    both = (left, right)
    is_text = op is ast.Add and all(isinstance(each, str) for each in both)
    if not is_text and not all(isinstance(each, int | float) for each in both):
        raise TypeError("not numbers")
    return _MATHS[op](left, right)


def _compare(node: ast.Compare, names: Message) -> bool:
    left = _evaluate(node.left, names)
    for op, comparator in zip(node.ops, node.comparators, strict=True):
        right = _evaluate(comparator, names)
        if not _COMPARES[type(op)](left, right):
            return False
        left = right
    return True


def _item(found: Any, name: Any) -> Any:
    """The item of a mapping or a list; None if there is none."""
    if isinstance(found, dict):
        return found.get(str(name))
    if isinstance(found, list) and isinstance(name, int) and -len(found) <= name < len(found):
        return found[name]
    return None


def _parsed(text: Any) -> Any:
    """JSON, or the text itself."""
    if isinstance(text, str) and text[:1] in ("{", "[", '"'):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text
