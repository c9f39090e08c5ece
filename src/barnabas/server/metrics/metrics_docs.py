"""The writer of docs/metrics.md: `python -m barnabas.server.metrics.metrics_docs`."""

import sys
from typing import Final

from barnabas.server.metrics.metric_table import METRICS, Metric

_OPENING: Final = """\
# Metrics

A broker serves metrics for Prometheus on `/metrics` if it is given a port:

```sh
barnabas server --metrics 127.0.0.1:9192
curl http://127.0.0.1:9192/metrics
```

or, in `server.properties`, `barnabas.metrics.listener=127.0.0.1:9192`. `barnabas cluster` gives
each broker a metrics port, its client port plus 1000 (or any other, if that one is in use), and
prints it. A client that reaches the port can read the metrics and do nothing else; do not expose it
to the internet.

## For Prometheus

A `prometheus.yml` for the three brokers of `barnabas cluster`, with alerts in `barnabas.rules.yml`
beside it:

```yaml
scrape_configs:
  - job_name: barnabas
    static_configs:
      - targets: ["127.0.0.1:10092", "127.0.0.1:10093", "127.0.0.1:10094"]
rule_files: [barnabas.rules.yml]
```

```yaml
groups:
  - name: barnabas
    rules:
      - alert: NoLeader
        expr: sum(barnabas_offline_partitions) > 0
      - alert: NotOneController
        expr: sum(barnabas_active_controller) != 1
        for: 1m
      - alert: RecordsMayBeLost
        expr: increase(barnabas_unclean_leader_elections_total[5m]) > 0
      - alert: AcksAllRefused
        expr: sum(barnabas_under_min_isr_partitions) > 0
      - alert: UnderReplicated
        expr: sum(barnabas_under_replicated_partitions) > 0
        for: 5m
      - alert: LogDirectoryFailed
        expr: barnabas_offline_log_directories > 0
```

The time that the slowest hundredth of Produce requests waits for the other replicas, in seconds:

```promql
histogram_quantile(0.99, sum by (le) (
  rate(barnabas_request_seconds_bucket{api="Produce",phase="remote"}[1m])
))
```

## Every metric

*In Kafka* is the JMX name of the same metric in Apache Kafka; a rate there is a counter here,
because Prometheus computes `rate()`. In addition there are the `process_` metrics of Prometheus's
client library.
"""

_CLOSING: Final = """
## What it costs

A scrape reads the values from the broker's parts, on its event loop, which takes about ten
microseconds per partition: scrape every 15 seconds, not every second. Only requests are counted as
they arrive: a tenth to a quarter of a microsecond each. Requests on the fast path, which begin like
the one before, are timed once in 16 reads from the socket, and each time stands for 16; all other
requests are timed individually.

*Written by `python -m barnabas.server.metrics.metrics_docs`; a test keeps it current.*
"""


def metrics_page() -> str:
    rows = "\n".join(_row(metric) for metric in METRICS.values())
    head = "| metric | type | labels | meaning | in Kafka |\n|---|---|---|---|---|\n"
    return f"{_OPENING}\n{head}{rows}\n{_CLOSING}"


def _row(metric: Metric) -> str:
    labels = ", ".join(f"`{label}`" for label in metric.labels)
    in_kafka = f"`{metric.in_kafka}`" if metric.in_kafka else ""
    return f"| `{metric.name}` | {metric.kind} | {labels} | {metric.meaning} | {in_kafka} |"


if __name__ == "__main__":
    sys.stdout.write(metrics_page())
