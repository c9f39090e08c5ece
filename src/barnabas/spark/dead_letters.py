"""Dead letters: bad records unchanged, with the reason and their origin in headers."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HEADER: Final = "barnabas.dead-letter."


def dead_letters(rows: "DataFrame") -> "DataFrame":
    """The bad records unchanged, with the reason and their origin in headers."""
    from pyspark.sql import functions as f

    added = {
        "reason": "reason",
        "topic": "topic",
        "partition": "string(partition)",
        "offset": "string(offset)",
        "timestamp": "string(unix_millis(timestamp))",
    }
    headers = ", ".join(
        f"struct('{HEADER}{name}' AS key, cast({text} AS BINARY) AS value)"
        for name, text in added.items()
    )
    own = "coalesce(headers, cast(array() AS ARRAY<STRUCT<key: STRING, value: BINARY>>))"
    joined = f.expr(f"concat({own}, array({headers}))").alias("headers")
    return rows.where("reason IS NOT NULL").select("key", "value", joined)
