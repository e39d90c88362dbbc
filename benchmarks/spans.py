"""Lengths of time that may overlap."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Span:
    """From `begin_s` to `end_s` on some clock."""

    begin_s: float
    end_s: float

    def within(self, outer: "Span") -> "Span":
        """The part of this that lies in `outer`; empty when none does."""
        begin = min(max(self.begin_s, outer.begin_s), outer.end_s)
        return Span(begin, max(begin, min(self.end_s, outer.end_s)))

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def covered_s(spans: Iterable[Span]) -> float:
    """How long at least one of `spans` ran: what overlaps counts once."""
    total, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda one: one.begin_s):
        total += max(0.0, span.end_s - max(span.begin_s, reached))
        reached = max(reached, span.end_s)
    return total
