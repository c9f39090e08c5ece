"""docs/glossary.md: every class of Kafka's is mapped to a file that exists and defines the name."""

from collections import Counter

from tests.support.documents import SOURCE, defined_in, document, rows

PAGE = document("docs/glossary.md")
MAPPED = rows(PAGE, "Kafka's class")


def test_every_mapped_file_exists_and_defines_the_name() -> None:
    wrong = []
    for kafka, file, name in MAPPED:
        path = SOURCE / file.strip("`")
        if not path.is_file():
            wrong.append(f"{kafka}: no file {file}")
        elif name.strip("`") not in defined_in(path):
            wrong.append(f"{kafka}: {file} does not define {name}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_kafkas_classes_are_mapped_once_each() -> None:
    named = Counter(kafka for kafka, _, _ in MAPPED)
    assert len(named) >= 100
    assert named.most_common(1)[0][1] == 1


def test_words_are_in_alphabetical_order() -> None:
    words = [here for here, _, _ in rows(PAGE, "Here")]
    assert words == sorted(words)
