"""The columns of decoded values beside those of the record."""

from typing import Any, Final

# The columns of a record in a table with decoded values.
RECORD_COLUMNS: Final = ("key", "headers", "topic", "partition", "offset", "timestamp")


def value_fields(struct: Any) -> dict[str, str]:
    """The fields of a value, and their columns: `value_NAME` where NAME is one of the record's."""
    return {
        name: f"value_{name}" if name.lower() in RECORD_COLUMNS else name
        for name in struct.fieldNames()
    }
