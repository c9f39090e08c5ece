"""The metrics of a broker in Prometheus' format; only a broker with a listener imports it."""

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from barnabas.server.metrics.metric_table import METRICS, PREFIX, Metric
from barnabas.server.metrics.metric_values import Observed, Samples, samples
from barnabas.server.metrics.request_statistics import BOUNDS_S, Times

# Requests are counted in finer buckets than a dashboard needs: every second bound is exported.
_EXPORTED_BOUNDS: Final = range(2, len(BOUNDS_S), 2)

Family = GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily


class Metrics(Collector):
    """All metrics of one broker, and of the process that it runs in."""

    def __init__(self, observed: Observed) -> None:
        self._observed = observed
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._registry.register(self)

    def page(self) -> bytes:
        """All of them in Prometheus's text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        found = dict(samples(self._observed))
        for metric in METRICS.values():
            yield _family(metric, found[metric.name.removeprefix(PREFIX)])


def _family(metric: Metric, found: Samples) -> Family:
    name, kind, labels, _, meaning = metric
    if kind == "histogram":
        times = HistogramMetricFamily(name, meaning, labels=labels)
        for values, each in found.items():
            if isinstance(each, Times):
                times.add_metric(values, _buckets(each), each.total_ns / 1e9)
        return times
    family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(
        name, meaning, labels=labels
    )
    for values, each in found.items():
        if not isinstance(each, Times):
            family.add_metric(values, each)
    return family


def _buckets(times: Times) -> list[tuple[str, float]]:
    upto = list(accumulate(times.buckets))
    exported: list[tuple[str, float]] = [(repr(BOUNDS_S[n]), upto[n]) for n in _EXPORTED_BOUNDS]
    return [*exported, ("+Inf", upto[-1])]
