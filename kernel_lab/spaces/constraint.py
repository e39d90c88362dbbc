"""Constraints that are checked as soon as the tunables they speak of are set."""

from collections.abc import Callable
from dataclasses import dataclass

from kernel_lab.spaces.space import Surroundings
from schemas.work import Genome

Check = Callable[[Genome, Surroundings], bool]


@dataclass(frozen=True)
class Constraint:
    """A rule over some tunables. `why` is what a person reads."""

    over: tuple[str, ...]
    holds: Check
    why: str


def all_hold(constraints: tuple[Constraint, ...]) -> Check:
    """The check of a complete genome."""

    def valid(genome: Genome, around: Surroundings) -> bool:
        return all(constraint.holds(genome, around) for constraint in constraints)

    return valid


def none_broken(constraints: tuple[Constraint, ...]) -> Check:
    """The check of a genome that is still being built: only rules whose tunables are all set count."""

    def possible(genome: Genome, around: Surroundings) -> bool:
        return all(c.holds(genome, around) for c in constraints if all(name in genome for name in c.over))

    return possible
