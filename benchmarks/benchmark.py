"""What a benchmark is, and what it says afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Say = Callable[[str], None]
"""Progress for a person, one line at a time."""


@dataclass(frozen=True)
class Bound:
    """What a figure should be."""

    at: Literal["least", "most"]
    value: float

    def holds(self, measured: float) -> bool:
        return measured >= self.value if self.at == "least" else measured <= self.value

    def __str__(self) -> str:
        return f"{'≥' if self.at == 'least' else '≤'} {self.value:g}"


def at_least(value: float) -> Bound:
    return Bound("least", value)


def at_most(value: float) -> Bound:
    return Bound("most", value)


@dataclass(frozen=True)
class Figure:
    """One number, and what it should be. Without a bound it explains another figure."""

    name: str
    measured: float | None
    """None when it could not be measured: never a number in its place."""
    unit: str
    bound: Bound | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """None when nothing was asked of it, or nothing was measured."""
        if self.bound is None or self.measured is None:
            return None
        return self.bound.holds(self.measured)


@dataclass(frozen=True)
class Result:
    """Figures, and the raw samples that they came from."""

    figures: tuple[Figure, ...]
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """`run(size, say)`: size 1 is the full measurement, less is for trying the benchmark out."""

    name: str
    summary: str
    minutes: float
    run: Callable[[float, Say], Result]
    is_long: bool = False
