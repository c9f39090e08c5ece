"""The house style that no linter knows, as a machine that refuses.

Each test gathers all violations of one rule as `file:line what`, so that one run reports them all.
An exemption is a line in a table here, with its reason; one that is no longer needed is refused
too, so the tables stay short.
"""

import ast
import io
import re
import tokenize
from collections.abc import Container, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 80
MIN_WORDS_IN_A_TEST_NAME = 3

# Where everything may be caught, as a file and a function in it: the top of a connection, and
# whoever supervises tasks that nobody awaits. Anywhere else it would hide a bug.
SWALLOWS_ALL = {
    (
        "src/barnabas/purgatory/delayed_operation.py",
        "_guarded",
    ): "one operation's bug is not its waker's",
    ("src/barnabas/purgatory/timer.py", "_run"): "one task's bug must not stop the clock",
    (
        "src/barnabas/server/maintenance/log_cleaner.py",
        "_run",
    ): "what is due is looked for again later",
    (
        "src/barnabas/server/maintenance/log_cleaner.py",
        "clean",
    ): "one log that cannot be cleaned stops no other",
    ("src/barnabas/server/network/connection.py", "_serve_frames"): "the top of a connection",
    (
        "src/barnabas/server/transactions/transaction_coordinator.py",
        "_end_due",
    ): "a bug ends the broker, as that of a task",
    ("src/barnabas/server/requests/replies.py", "_answer"): "the task behind one pending answer",
    (
        "src/barnabas/server/maintenance/housekeeping.py",
        "_repeat",
    ): "a duty that failed is due again later",
}

LONG_FUNCTIONS: dict[tuple[str, str], str] = {}

# Names of classes that stand in two modules or more. Some are Kafka's word for two things, as
# Producer and Operation; a new one is refused. Lower the number when one goes.
MAX_NAMES_OF_TWO_CLASSES = 19

# Callables that go into constructors of the server: constructor parameters and fields that are
# annotated as Callable, and lambdas passed to a constructor. A part that calls its owner by such a
# callable may be changed in the middle of its own work.
MAX_CALLABLES_IN_SERVER_CONSTRUCTORS = 20

MARKER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
EMPTY_NAME = re.compile(r"(Manager|Helper|Util)s?(?![a-z])|(^|_)(manager|helper|util)s?(_|$)")
SUPPRESSION = re.compile(r"type:\s*ignore|noqa")
EXPLAINED = re.compile(r"(type:\s*ignore\[[\w, -]+\]|noqa:\s*[A-Z]+\d+)\s*(?:-|#)\s+\S")

OPENING_QUESTION = re.compile(r'(\A|""")(Whether|What|Who|Which)\b')

# Functions that may take a set of strings: its order does not show in their results.
ORDERLESS = ("all", "any", "frozenset", "len", "max", "min", "set", "sorted", "sum")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def python_files(*folders: str) -> list[Path]:
    chosen = folders or ("src", "tests")
    return sorted(path for folder in chosen for path in (ROOT / folder).rglob("*.py"))


def documents() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def tree_of(path: Path) -> ast.Module:
    """Parsed each time: a million nodes that stay would slow every collection of garbage."""
    return ast.parse(path.read_text())


class Defined(NamedTuple):
    """A function or a class of a module, at any depth."""

    name: str
    line: int
    is_function: bool
    lines_of_work: int


@cache
def defined(path: Path) -> tuple[Defined, ...]:
    return tuple(
        Defined(node.name, node.lineno, isinstance(node, Function), lines_of_work(node))
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef | Function)
    )


def functions(path: Path) -> list[Defined]:
    return [each for each in defined(path) if each.is_function]


def comments(path: Path, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Those in which the pattern is found."""
    text = path.read_text()
    if not pattern.search(text):
        return []  # tokens take long
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT and pattern.search(token.string)
    ]


def docstrings(path: Path, pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    """Those in which the pattern is found."""
    if not pattern.search(path.read_text()):
        return []
    return [
        (node.body[0].lineno, text)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Module | ast.ClassDef | Function)
        if pattern.search(text := ast.get_docstring(node) or "")
    ]


def lines_of_work(definition: Function | ast.ClassDef) -> int:
    """How long it is without its signature and docstring."""
    body = definition.body[1:] if ast.get_docstring(definition) else definition.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def refuse(violations: list[str]) -> None:
    assert not violations, "\n" + "\n".join(violations)


def unexpected(
    found: dict[tuple[str, str], int], exempt: dict[tuple[str, str], str], what: str
) -> list[str]:
    wrong = [f"{file}:{line} {name} {what}" for (file, name), line in found.items()]
    wrong = [text for key, text in zip(found, wrong, strict=True) if key not in exempt]
    return wrong + [
        f"{file} {name} is exempt, but need not be" for file, name in exempt.keys() - found.keys()
    ]


# -- size and names ----------------------------------------------------------


def test_no_file_has_grown_beyond_what_one_can_keep_in_mind() -> None:
    sizes = {path: len(path.read_text().splitlines()) for path in python_files()}
    refuse(
        [f"{name_of(p)} has {n} lines" for p, n in sizes.items() if n > MAX_FILE_LINES],
    )


def test_no_function_is_longer_than_a_screen() -> None:
    found = {
        (name_of(path), function.name): function.line
        for path in python_files()
        for function in functions(path)
        if function.lines_of_work > MAX_FUNCTION_LINES
    }
    refuse(unexpected(found, LONG_FUNCTIONS, f"has over {MAX_FUNCTION_LINES} lines"))


def test_no_name_says_only_that_something_is_managed_or_helped() -> None:
    wrong = [name_of(path) for path in python_files() if EMPTY_NAME.search(path.stem)]
    wrong += [
        f"{name_of(path)}:{each.line} {each.name}"
        for path in python_files()
        for each in defined(path)
        if EMPTY_NAME.search(each.name)
    ]
    refuse(wrong)


def test_few_names_are_those_of_two_classes() -> None:
    files: dict[str, list[str]] = {}
    for path in python_files("src"):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                files.setdefault(node.name, []).append(name_of(path))
    found = [f"{name}: {', '.join(where)}" for name, where in files.items() if len(where) > 1]
    if len(found) != MAX_NAMES_OF_TWO_CLASSES:
        refuse(found)


def test_every_test_is_named_by_a_sentence() -> None:
    refuse(
        [
            f"{name_of(path)}:{function.line} {function.name}"
            for path in python_files("tests")
            for function in functions(path)
            if function.name.startswith("test_")
            and len(function.name.removeprefix("test_").split("_")) < MIN_WORDS_IN_A_TEST_NAME
        ]
    )


# -- what is written beside the code -----------------------------------------


def test_every_module_begins_by_saying_what_it_is_for() -> None:
    wrong = []
    for path in python_files():
        text = path.read_text()
        is_marker = path.name == "__init__.py" and path.is_relative_to(ROOT / "tests")
        if is_marker and not text:
            continue
        if not re.match(r'r?"""\S', text):
            wrong.append(f"{name_of(path)} does not begin with a docstring")
    refuse(wrong)


def test_no_docstring_opens_with_a_question_word() -> None:
    found = [
        f"{name_of(path)}:{line} {text.strip().splitlines()[0]}"
        for path in python_files()
        for line, text in docstrings(path, OPENING_QUESTION)
    ]
    assert not found, found


def test_a_docstring_says_true_if_only_where_a_bool_is_returned() -> None:
    found = [
        f"{name_of(path)}:{node.lineno} {node.name}"
        for path in python_files("src")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ClassDef | Function)
        if (ast.get_docstring(node) or "").startswith("True if")
        if isinstance(node, ast.ClassDef) or not _returns_a_bool(node)
    ]
    assert not found, found


def _returns_a_bool(function: Function) -> bool:
    return function.returns is not None and "bool" in ast.unparse(function.returns)


def test_every_package_has_an_init_file() -> None:
    folders = {path.parent for path in python_files()}
    inside = sorted(f for f in folders if f not in (ROOT / "src", ROOT / "tests"))
    refuse([f"{name_of(f)} has no __init__.py" for f in inside if not (f / "__init__.py").exists()])


def test_nothing_is_left_to_be_done_by_a_comment() -> None:
    wrong = []
    for path in python_files():
        written = [*comments(path, MARKER), *docstrings(path, MARKER)]
        wrong += [f"{name_of(path)}:{line} {text}" for line, text in written]
    for path in documents():
        lines = enumerate(path.read_text().splitlines(), 1)
        wrong += [f"{name_of(path)}:{n} {text}" for n, text in lines if MARKER.search(text)]
    refuse(wrong)


def test_a_silenced_checker_has_its_rule_and_the_reason() -> None:
    refuse(
        [
            f"{name_of(path)}:{line} {text}"
            for path in python_files()
            for line, text in comments(path, SUPPRESSION)
            if not EXPLAINED.search(text)
        ]
    )


def test_documents_have_no_trailing_spaces_or_tabs() -> None:
    wrong = []
    for path in documents():
        text = path.read_text()
        lines = enumerate(text.splitlines(), 1)
        wrong += [
            f"{name_of(path)}:{n}" for n, line in lines if line != line.rstrip() or "\t" in line
        ]
        if not text.endswith("\n") or text.endswith("\n\n"):
            wrong.append(f"{name_of(path)} does not end in one line break")
    refuse(wrong)


# -- what hides bugs ---------------------------------------------------------


def swallows_all(handler: ast.ExceptHandler) -> bool:
    """True if it catches everything, and does not raise it again at its end."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise) and last.exc is None:
        return False
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = [one.id if isinstance(one, ast.Name) else None for one in caught]
    return handler.type is None or "Exception" in names or "BaseException" in names


def handlers(node: ast.AST, function: str) -> Iterator[tuple[str, ast.ExceptHandler]]:
    """Every handler below `node`, with the name of the innermost function around it."""
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, Function) else function
        if isinstance(child, ast.ExceptHandler):
            yield inside, child
        yield from handlers(child, inside)


def test_only_the_top_of_a_connection_and_supervisors_swallow_everything() -> None:
    found = {
        (name_of(path), function): handler.lineno
        for path in python_files("src")
        for function, handler in handlers(tree_of(path), "<module>")
        if swallows_all(handler)
    }
    refuse(unexpected(found, SWALLOWS_ALL, "swallows everything"))


def is_set(node: ast.expr, sets: frozenset[str]) -> bool:
    """True if the expression is plainly a set, whose order changes from run to run."""
    if isinstance(node, ast.Name):
        return node.id in sets
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("set", "frozenset")
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub):
        return is_set(node.left, sets) and is_set(node.right, sets)
    return isinstance(node, ast.SetComp) or (
        isinstance(node, ast.Set) and not all(is_number(element) for element in node.elts)
    )


def is_number(node: ast.expr) -> bool:
    """True if the element is a number, whose hash is the same in every run."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def named_sets(tree: ast.Module) -> frozenset[str]:
    """The names that a module gives to sets at its top."""
    targets: list[ast.expr] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and is_set(node.value, frozenset()):
            targets += node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets += [node.target] if is_set(node.value, frozenset()) else []
    return frozenset(target.id for target in targets if isinstance(target, ast.Name))


def in_order(tree: ast.Module) -> Iterator[ast.expr]:
    """Every expression that is gone through in its own order."""
    orderless = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ORDERLESS:
            orderless |= {id(argument) for argument in node.args}
    for node in ast.walk(tree):
        if isinstance(node, ast.For):
            yield node.iter
        elif isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp):
            if id(node) not in orderless:
                yield from (generator.iter for generator in node.generators)
        elif isinstance(node, ast.Starred):
            yield node.value
        elif isinstance(node, ast.Call) and takes_in_order(node):
            yield from node.args


def takes_in_order(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr in ("join", "extend")
    return isinstance(call.func, ast.Name) and call.func.id in (
        "list",
        "tuple",
        "iter",
        "enumerate",
    )


def test_no_set_of_strings_is_gone_through_in_its_own_order() -> None:
    wrong = []
    for path in python_files("src"):
        sets = named_sets(tree_of(path))
        wrong += [
            f"{name_of(path)}:{node.lineno} {ast.unparse(node)}"
            for node in in_order(tree_of(path))
            if is_set(node, sets)
        ]
    refuse(wrong)


# -- what makes objects hold their owners ------------------------------------


def callables_in_constructors(
    tree: ast.Module, aliases: Container[str] = ()
) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from callable_parameters(node, aliases)
        elif isinstance(node, ast.Call) and is_constructor(node.func):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from ((a.lineno, ast.unparse(a)) for a in given if isinstance(a, ast.Lambda))


def callable_parameters(
    of: ast.ClassDef, aliases: Container[str] = ()
) -> Iterator[tuple[int, str]]:
    """Those of its constructor, and of its fields if it is a dataclass."""
    for node in of.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            for parameter in (*node.args.args, *node.args.kwonlyargs):
                if parameter.annotation is not None and is_callable(parameter.annotation, aliases):
                    yield parameter.lineno, f"{of.name}.{parameter.arg}"
        elif isinstance(node, ast.AnnAssign) and is_callable(node.annotation, aliases):
            yield node.lineno, f"{of.name}.{ast.unparse(node.target)}"


def is_callable(annotation: ast.expr, aliases: Container[str] = ()) -> bool:
    names = (node.id for node in ast.walk(annotation) if isinstance(node, ast.Name))
    return "Callable" in ast.unparse(annotation) or any(name in aliases for name in names)


def names_of_callables(tree: ast.Module) -> Iterator[str]:
    """Those that a module gives to types of callables: `Check = Callable[[], None]`."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("Callable["):
            yield from (ast.unparse(target) for target in node.targets)
        elif isinstance(node, ast.AnnAssign) and node.value and is_callable(node.value):
            yield ast.unparse(node.target)


def names_at_hand(tree: ast.Module) -> set[str]:
    """The names of types of callables that a module has itself or imports."""
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    names = {alias.name for node in imported for alias in node.names}
    return names | set(names_of_callables(tree))


def is_constructor(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    return name.lstrip("_")[:1].isupper()


def test_the_parts_of_the_server_are_given_few_callables() -> None:
    trees = {name_of(path): tree_of(path) for path in python_files("src/barnabas/server")}
    named = {name for tree in trees.values() for name in names_of_callables(tree)}
    found = [
        f"{path}:{line} {what}"
        for path, tree in trees.items()
        for line, what in callables_in_constructors(tree, named & names_at_hand(tree))
    ]
    if len(found) > MAX_CALLABLES_IN_SERVER_CONSTRUCTORS:
        refuse(found)


# -- the rules themselves ----------------------------------------------------


def test_the_rule_on_sets_sees_what_it_is_for() -> None:
    def seen(source: str) -> bool:
        tree = ast.parse(source)
        return any(is_set(node, named_sets(tree)) for node in in_order(tree))

    assert seen("for name in {'a', 'b'}: pass")
    assert seen("NAMES = frozenset({'a'})\n[n for n in NAMES]")
    assert seen("', '.join({'a', 'b'})")
    assert not seen("for name in sorted({'a', 'b'}): pass")
    assert not seen("for number in {1, 2}: pass")
    assert not seen("any(name for name in {'a', 'b'})")


def test_the_rule_on_silenced_checkers_wants_rule_and_reason() -> None:
    assert EXPLAINED.search("# noqa: SIM115 - held as long as the lock")
    assert not EXPLAINED.search("# noqa: SIM115")
    assert not EXPLAINED.search("# noqa")


def test_the_rule_on_names_knows_words_from_parts_of_words() -> None:
    assert EMPTY_NAME.search("LogManager")
    assert EMPTY_NAME.search("string_utils")
    assert not EMPTY_NAME.search("Utility")


def test_the_rule_on_handlers_sees_through_tuples_and_lets_notes_pass() -> None:
    def swallows(handler: str) -> bool:
        tree = ast.parse(f"try: f()\n{handler}")
        return any(swallows_all(handler) for _, handler in handlers(tree, ""))

    assert swallows("except: g()")
    assert swallows("except (A, Exception): g()")
    assert not swallows("except OSError: g()")
    assert not swallows("except Exception:\n    g()\n    raise")


def test_the_rule_on_callables_sees_parameters_fields_and_lambdas() -> None:
    source = """
class A:
    def __init__(self, done: Callable[[], None], size: int) -> None: ...
@dataclass
class B:
    changed: Callable[[int], None] | None = None
    size: int = 0
A(lambda: None, size=sorted([], key=lambda each: each))
"""
    seen = [what for _, what in callables_in_constructors(ast.parse(source))]
    assert sorted(seen) == ["A.done", "B.changed", "lambda: None"]


def test_the_rule_on_callables_sees_through_the_names_of_their_types() -> None:
    tree = ast.parse("""
Done = Callable[[], None]
Left: TypeAlias = Callable[[int], None]
class A:
    def __init__(self, done: Done, left: Left | None, size: int) -> None: ...
""")
    aliases = set(names_of_callables(tree))
    seen = [what for _, what in callables_in_constructors(tree, aliases)]
    assert (aliases, seen) == ({"Done", "Left"}, ["A.done", "A.left"])
