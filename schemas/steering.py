"""What a person may add to a steer: more budget, advice, or a ban. Which action takes which is the desk's to check."""

from collections.abc import Iterable, Mapping

from pydantic import Field, model_validator

from schemas.goal import Budget, Goal, Seconds, SpaceLimits
from schemas.ids import Token
from schemas.model import Model
from schemas.work import Gene, Genome, gene_text

HINT_CHARACTERS = 2000


class Extension(Model):
    """Added to the budget that a goal has."""

    candidates: int = Field(default=0, ge=0, le=100_000)
    wall: Seconds = Field(default=0.0, ge=0, le=30 * 86400)
    """Seconds of search."""
    stagnation: int = Field(default=0, ge=0, le=1000)


class Hint(Model):
    """Advice for whoever proposes. A newer hint replaces the one before."""

    text: str = Field(default="", max_length=HINT_CHARACTERS)
    """For people, agents and language models; Assay's own strategies do not read."""
    include: dict[str, tuple[int | str | bool, ...]] = {}
    """A region of the design space: tunable name to the values that look good. Proposers look there first."""


class Ban(Model):
    """What shall not be proposed again in this goal: one kernel, or one value of a tunable."""

    fingerprint: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    tunable: Token | None = None
    value: Gene | None = None

    @model_validator(mode="after")
    def _one_thing(self) -> "Ban":
        kernel = self.fingerprint is not None
        complete = (self.tunable is None) == (self.value is None)
        if not complete or kernel == (self.tunable is not None):
            raise ValueError("ban one thing: a fingerprint, or a tunable and its value")
        return self

    def covers(self, genome: Genome) -> bool:
        """`genome` holds the banned value."""
        gene = None if self.tunable is None else genome.get(self.tunable)
        return gene is not None and type(gene) is type(self.value) and gene == self.value

    def __str__(self) -> str:
        if self.tunable is None or self.value is None:
            return f"kernel {self.fingerprint}"
        return f"{self.tunable}={gene_text(self.value)}"


def extended(goal: Goal, more: Extension) -> Goal:
    """`goal` with a larger budget. The desk has checked that no limit is passed."""
    budget = goal.budget
    larger = Budget.model_construct(
        candidates=budget.candidates + more.candidates,
        wall=budget.wall + more.wall,
        stagnation=budget.stagnation + more.stagnation,
    )
    return goal.model_copy(update={"budget": larger})


def without_banned(space: SpaceLimits, bans: Iterable[Ban]) -> SpaceLimits:
    """`space` without the banned values."""
    exclude = dict(space.exclude)
    for ban in bans:
        if ban.tunable is not None and ban.value is not None:
            exclude[ban.tunable] = (*exclude.get(ban.tunable, ()), ban.value)
    return SpaceLimits(include=space.include, exclude=exclude)


def narrowed(space: SpaceLimits, region: Mapping[str, tuple[Gene, ...]]) -> SpaceLimits:
    """The part of `space` inside `region`; a tunable that both limit keeps the values in both."""
    include = dict(space.include)
    for name, values in region.items():
        kept = include.get(name, values)
        include[name] = tuple(value for value in values if any(type(value) is type(k) and value == k for k in kept))
    return SpaceLimits(include=include, exclude=space.exclude)
