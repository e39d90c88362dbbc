"""What a service counts, under the names of event-backbone.md. One registry per process object, none global."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

HANDLER_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
"""Chosen: null work takes a millisecond, a race many minutes."""


class Metrics:
    """The counters of one process."""

    def __init__(self, service: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.published = Counter(
            "assay_events_published", "Facts with a PubAck", ["type", "duplicate"], registry=self.registry
        )
        self.redeliveries = self._counter("assay_redeliveries", "Work messages handed out again")
        self.abandoned = self._counter("assay_work_abandoned", "Work that ended in an abandonment")
        self.parked = self._counter("assay_messages_parked", "Messages parked with a reason")
        self.dropped = self._counter("assay_work_dropped", "Work dropped because its goal had ended")
        self.effect_losses = self._counter("assay_effect_losses", "Effect processes that died under their work")
        self.transients = self._counter("assay_transient_faults", "Times a dependency was away")
        self.divergent_duplicates = self._counter(
            "assay_divergent_duplicates", "Facts with a known id and another body"
        )
        self.unread_facts = self._counter(
            "assay_unread_facts", "Recorded facts of a version that this Assay does not know"
        )
        self.recorder_lag = Gauge(
            "assay_recorder_lag_events", "Facts in the stream and not yet in the log", registry=self.registry
        )
        self.handler_duration = Histogram(
            "assay_handler_duration_seconds",
            "From a work message's delivery to its acknowledgement",
            ["type"],
            buckets=HANDLER_BUCKETS_S,
            registry=self.registry,
        )
        Gauge("assay_service_info", "1 for the running service", ["service"], registry=self.registry).labels(
            service
        ).set(1)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(name, about, registry=self.registry)

    def exposition(self) -> bytes:
        """The metrics as Prometheus reads them."""
        return generate_latest(self.registry)

    def value(self, name: str, **labels: str) -> float:
        """The current value of one series, 0 when it was never counted."""
        return self.registry.get_sample_value(name, labels) or 0.0
