"""Laws: invariants that are checked under `python -O` too, and report their facts."""

from barnabas.base.errors import LawBroken


def law(holds: bool, name: str, /, **facts: object) -> None:
    """Raise LawBroken unless the law holds; `name` begins with an id of docs/laws.md."""
    if not holds:
        raise LawBroken(f"{name}: " + ", ".join(f"{k}={v!r}" for k, v in facts.items()))
