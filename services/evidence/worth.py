"""What a search orders candidates by."""

from schemas.measurement import Comparison


def ratio_of(comparison: Comparison) -> float | None:
    """The estimate, where there is a number."""
    return comparison.ratio.estimate if comparison.ratio else None


def worth_of(comparison: Comparison) -> float | None:
    """The ratio, times how far the worst shape lies below what a race lets pass (measurement.md, 6: none below 1 − δ).
    Who gains on one shape what it loses on another cannot be crowned, and should not lead a search."""
    ratio, passes = ratio_of(comparison), 1 - comparison.delta
    worst = min((shape.ratio for shape in comparison.shapes), default=passes)
    return ratio * worst / passes if ratio is not None and 0 < worst < passes else ratio
