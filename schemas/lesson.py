"""What the log taught."""

from schemas.measurement import Interval
from schemas.model import Model


class Lesson(Model):
    """A statement with its evidence, computed from the log, superseded by newer ones, never written by hand."""

    workload: str
    condition: dict[str, str]
    """For example {"machine": "cpu_1a2b3c4d", "gene": "streaming", "value": "true"}."""
    statement: str
    effect: Interval | None
    """Search ratio of candidates with the gene value over those without; absent for lessons about failures."""
    count: int
    failures: dict[str, int]
    """Rejections under this condition, by reason."""
