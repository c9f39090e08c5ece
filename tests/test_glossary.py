"""docs/glossary.md: every class of Kafka's is mapped to a file that exists and defines the name."""

from collections import Counter

from tests.support.documents import document, misplaced, rows

PAGE = document("docs/glossary.md")
MAPPED = rows(PAGE, "Kafka's class")


def test_every_mapped_file_exists_and_defines_the_name() -> None:
    found = {kafka: misplaced(file.strip("`"), name.strip("`")) for kafka, file, name in MAPPED}
    wrong = [f"{kafka}: {problem}" for kafka, problem in found.items() if problem]
    assert not wrong, "\n" + "\n".join(wrong)


def test_kafkas_classes_are_mapped_once_each() -> None:
    named = Counter(kafka for kafka, _, _ in MAPPED)
    assert len(named) >= 100
    assert named.most_common(1)[0][1] == 1


def test_words_are_in_alphabetical_order() -> None:
    words = [here for here, _, _ in rows(PAGE, "Here")]
    assert words == sorted(words)
