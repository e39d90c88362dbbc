"""The goal file: what a person asks for. Only `workload` and `target` are required (console.md)."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from schemas.enums import Dtype, Language, Regime, Target
from schemas.ids import Token
from schemas.model import Model

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(value: object) -> object:
    """Seconds from `90`, `"500ms"`, `"10m"` or `"1h30m"`; anything else is left for the type to refuse."""
    if not isinstance(value, str):
        return value
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", value)
    if not parts or "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"not a duration: {value[:40]!r}; write for example 90s, 10m or 1h30m")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


Seconds = Annotated[float, BeforeValidator(parse_duration)]
AxisName = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9]{0,3}$")]
AxisSize = Annotated[int, Field(ge=0, le=2**40)]


class Shape(Model):
    """One size of the operation and its weight in the goal. Written flat in a goal file: `{T: 1, H: 4096}`."""

    axes: dict[AxisName, AxisSize]
    weight: float = Field(default=1.0, gt=0, le=1e6)

    @model_validator(mode="before")
    @classmethod
    def _from_flat(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "axes" in value:
            return value
        axes = {name: size for name, size in value.items() if name != "weight"}
        return {"axes": axes} | ({"weight": value["weight"]} if "weight" in value else {})

    def __str__(self) -> str:
        return "×".join(f"{name}{size}" for name, size in self.axes.items())


class Objective(Model):
    metric: Literal["hold_out_geomean"] = "hold_out_geomean"
    baseline: Literal["best_available"] = "best_available"
    regime: Regime = Regime.COLD
    min_gain: float = Field(default=0.02, ge=0, le=100)
    """A champion's hold-out estimate must be at least 1 + min_gain."""
    stop_at: float | None = Field(default=None, gt=1, le=1e6)
    """Stop searching once a *search* ratio reaches this and no shape is lost. Finals still decide."""


class Tolerance(Model):
    scale: float = Field(default=1.0, gt=0, le=1e6)
    """Multiplies the workload's bound."""
    allow_looser: bool = False

    @model_validator(mode="after")
    def _looser_is_asked_for(self) -> "Tolerance":
        if self.scale > 1 and not self.allow_looser:
            raise ValueError("scale above 1 loosens the proven bound; add allow_looser: true if you mean it")
        return self


class Constraints(Model):
    max_threads: int = Field(default=0, ge=0, le=1024)
    """0 means the whole quota of the machine."""
    deterministic: bool = False
    """True excludes order-free parallel reductions: every thread count must give the same bits."""
    forbid: tuple[str, ...] = Field(default=(), max_length=32)
    """Compiler flags that no candidate may use."""


class Budget(Model):
    candidates: int = Field(default=200, ge=1, le=100_000)
    wall: Seconds = Field(default=600.0, ge=1, le=30 * 86400)
    """Seconds of search. Paused time and finals do not count."""
    stagnation: int = Field(default=4, ge=1, le=1000)
    """Generations in a row without a better candidate before finals."""


class SpaceLimits(Model):
    """Narrows a design space: tunable name to allowed or excluded values."""

    include: dict[str, tuple[int | str | bool, ...]] = {}
    exclude: dict[str, tuple[int | str | bool, ...]] = {}


class Search(Model):
    islands: int = Field(default=2, ge=1, le=16)
    generation_size: int = Field(default=32, ge=1, le=512)
    seed: int = Field(default=7, ge=0, lt=2**63)
    strategies: tuple[Token, ...] = Field(default=("enumerate", "latin_hypercube", "genetic", "polish"), min_length=1)
    space: SpaceLimits = SpaceLimits()


class Finals(Model):
    finalists: int = Field(default=3, ge=1, le=5)
    hold_out_gap: Seconds = Field(default=60.0, ge=0, le=3600)
    """Seconds between the last search measurement and the race."""
    wall: Seconds = Field(default=1800.0, ge=10, le=86400)
    confirmation: Seconds = Field(default=0.0, ge=0, le=7 * 86400)
    """How long the goal waits for a person to confirm a quarantined result. 0: it ends without one."""


class Goal(Model):
    """Make this operation faster, on this hardware, within this error, for this budget."""

    name: str = Field(default="", max_length=200)
    workload: Token
    target: Target
    languages: tuple[Language, ...] = Field(default=(), max_length=8)
    """Empty means every language the target has."""
    dtype: Dtype = Dtype.F32
    shapes: Literal["small", "serving", "large"] | tuple[Shape, ...] = "serving"
    objective: Objective = Objective()
    tolerance: Tolerance = Tolerance()
    constraints: Constraints = Constraints()
    budget: Budget = Budget()
    search: Search = Search()
    finals: Finals = Finals()
