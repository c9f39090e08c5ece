"""Apache Kafka's distributed log, in Python."""

import barnabas.base.twins  # noqa: F401 - before any module that has a compiled version
