"""Invariants that hold also under `python -O`, and tell their facts when they do not."""

from barnabas.base.errors import LawBroken


def law(holds: bool, name: str, /, **facts: object) -> None:
    """Stop if the law called `name` does not hold; `name` begins with an id of docs/laws.md."""
    if not holds:
        raise LawBroken(f"{name}: " + ", ".join(f"{k}={v!r}" for k, v in facts.items()))
