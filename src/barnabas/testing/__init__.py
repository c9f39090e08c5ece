"""In-process Kafka clusters for tests, with fault injection.

`Cluster` is for scripts and unittest; pytest loads the fixtures of plugin.py automatically.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.cluster import Cluster as Cluster
    from barnabas.testing.misuse import Misuse as Misuse
    from barnabas.testing.misuse import NotInTime as NotInTime

__all__ = ["Cluster", "Misuse", "NotInTime"]


def __getattr__(name: str) -> Any:
    # Imported lazily: pytest imports this package even if no test uses a broker.
    if name == "Cluster":
        from barnabas.testing import cluster

        return cluster.Cluster
    if name in __all__:
        from barnabas.testing import misuse

        return getattr(misuse, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
