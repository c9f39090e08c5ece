"""docs/architecture.md follows the code: steps of requests, layers, imports, the picture."""

import re

from tests.support.documents import SOURCE, document, misplaced
from tests.support.parts import PICTURE, ROW, parts, picture, written

PAGE = document("docs/architecture.md")
STEP = re.compile(r"^\| \d+ \| .+ \| `(\S+\.py)` \| `(\w+)` \|$", re.MULTILINE)
REWRITE = "write it with: python -m tests.support.parts"


def test_each_step_of_a_request_is_where_the_architecture_says() -> None:
    steps = STEP.findall(PAGE)
    assert len(steps) == len(re.findall(r"^\| \d+ \|", PAGE, re.MULTILINE))
    wrong = [problem for file, name in steps if (problem := misplaced(file, name))]
    assert not wrong, "\n" + "\n".join(wrong)


def test_the_architecture_begins_with_a_produce() -> None:
    headings = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert headings[0] == "What happens when a Produce arrives"


def test_the_table_of_parts_is_the_order_of_the_layers() -> None:
    assert [part for part, _, _ in ROW.findall(PAGE)] == parts()
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == set(parts())


def test_the_picture_of_parts_shows_the_layers_of_the_contract() -> None:
    assert PICTURE.findall(PAGE) == [picture()], REWRITE


def test_the_table_of_parts_has_what_each_imports() -> None:
    assert written(PAGE) == PAGE, REWRITE
