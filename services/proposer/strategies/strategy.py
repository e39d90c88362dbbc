"""What a strategy is: one pure function from a brief and a seed to ideas, best first."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import numpy as np

from schemas.work import Genome
from services.evidence.brief import Brief
from services.proposer.terrain import Terrain


@dataclass(frozen=True)
class Idea:
    """A valid genome worth a look, and where it came from."""

    genome: Genome
    parents: tuple[UUID, ...] = ()
    operator: str = ""
    """Which of the strategy's moves made it, when it has several: what the bandit credits."""


class Strategy(Protocol):
    def __call__(
        self, brief: Brief, terrain: Terrain, island: int, rng: np.random.Generator, count: int
    ) -> Iterator[Idea]:
        """Valid ideas in order of preference; whoever asks keeps the first `count` that are not known yet.

        Finite. The same arguments give the same ideas. May repeat itself and what is known: the portfolio drops both.
        """
        ...
