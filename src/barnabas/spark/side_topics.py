"""Topics that belong to a query or a mirror; no `subscribePattern` matches them."""

from typing import Final

SINK_PREFIX: Final = "__spark-sink-"
MIRROR_STATE: Final = "__barnabas_mirror"


def is_side_topic(name: str) -> bool:
    return name == MIRROR_STATE or name.startswith(SINK_PREFIX)
