"""What one goal's search has tried so far: a fold that goes on from where it stopped, one recorded fact at a time."""

import math
from bisect import insort
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from schemas.enums import Language, Phase, Reason, SteerAction
from schemas.envelope import Recorded
from schemas.events import (
    CandidateAbandoned,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    CandidateRemeasured,
    Fact,
    FinalistRejected,
    GenerationClosed,
    GoalAccepted,
    GoalSteered,
    GoalTimedOut,
    MeasurementRefused,
)
from schemas.goal import Goal
from schemas.measurement import Comparison
from schemas.steering import Ban, Hint, extended
from schemas.work import Genome, Kernel
from services.evidence.worth import ratio_of, worth_of

HISTORY_FACTS: tuple[type[Fact], ...] = (
    GoalAccepted,
    GoalSteered,
    CandidateProposed,
    CandidateMeasured,
    CandidateRemeasured,
    CandidateRejected,
    MeasurementRefused,
    CandidateAbandoned,
    GenerationClosed,
    FinalistRejected,
    GoalTimedOut,
)
"""All that the fold reads of a goal. Compiled and verified facts repeat sources and are left out: half the bytes."""

CREDIT_WINDOW = 500
"""Settled candidates that an operator is judged by (OpenTuner's AUC bandit default)."""

ELITES_PER_ISLAND = 16
"""Chosen: two tournaments' worth of parents; a longer tail only slows convergence."""


@dataclass(frozen=True, order=True, slots=True)
class Cell:
    """Where a kernel lies in the archive: how it uses the hardware, whatever its algorithm."""

    vector_bits: int
    footprint_log2: int
    """Elements in flight: tile × unroll × accumulators, as the power of two below."""
    threads: int


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate of this goal and what became of it. Kept for as long as its goal is searched, hence the slots."""

    id: UUID
    position: int
    generation: int
    island: int
    strategy: str
    language: Language
    genome: Genome
    fingerprint: str
    cell: Cell
    parents: tuple[UUID, ...]
    settled: bool = False
    search_ratio: float | None = None
    """Of its longest look."""
    worth: float | None = None
    """Of the same look: what candidates are ordered by."""
    looks: int = 0
    """The screen, and the rounds of halving after it that gave a number."""
    worth_more: bool = False
    rejected: Reason | None = None
    abandoned: bool = False
    verified_id: UUID | None = None
    """The candidate.verified that its measurement answered: where its build is."""
    submitted: Kernel | None = None
    """What came from outside, whole: its source is in no space, and it spends none of the budget."""


@dataclass(frozen=True, slots=True)
class Credit:
    """One settled candidate, seen as a pull of the operator that proposed it."""

    strategy: str
    improved: bool
    """It became the best of its island."""


@dataclass(frozen=True, slots=True)
class Elite:
    """A measured candidate in rank order: what is worth most first, earlier first among equals."""

    tried: Tried

    def __lt__(self, other: "Elite") -> bool:
        return rank(self.tried) < rank(other.tried)


def rank(tried: Tried) -> tuple[float, int]:
    """Sorts what is worth most first. Unmeasured candidates come last."""
    return (-tried.worth if tried.worth is not None else math.inf, tried.position)


def standing(tried: Tried) -> tuple[int, float, int]:
    """Sorts the best first, and what was measured longer before what was only screened: many short looks find a lucky
    one."""
    return (-tried.looks, *rank(tried))


FOOTPRINT_GENES = ("tile", "block", "rows", "streams", "parts", "unroll", "accumulators")
"""Beginnings of the names of genes that multiply what is in flight."""


def cell_of(kernel: Kernel) -> Cell:
    """The archive cell of `kernel`, read from its genome by the names that spaces share."""
    genome = kernel.genome
    elements = 1
    for name, gene in genome.items():
        if isinstance(gene, int) and not isinstance(gene, bool) and name.startswith(FOOTPRINT_GENES):
            elements *= max(1, gene)
    vector = genome.get("vector_bits", 0)
    return Cell(vector if isinstance(vector, int) else 0, elements.bit_length() - 1, kernel.threads or 0)


class SearchHistory:
    """The search of one goal up to `position`. A fact about settled work is late, and is not counted."""

    def __init__(self) -> None:
        self.position = 0
        self.goal: Goal | None = None
        self.stale_generations = 0
        self._tried: dict[UUID, Tried] = {}
        self._standing: Counter[str] = Counter()
        self._elites: dict[int, list[Elite]] = {}
        self._archive: dict[Cell, Tried] = {}
        self._cells: dict[Cell, list[UUID]] = {}
        self._credit: deque[Credit] = deque(maxlen=CREDIT_WINDOW)
        self._best: Tried | None = None
        self._best_at_close: float | None = None
        self._timed_out = False
        self.hint: Hint | None = None
        """The latest."""
        self.bans: tuple[Ban, ...] = ()
        self._pins: tuple[UUID, ...] = ()
        self._disproven: set[UUID] = set()

    def absorb(self, recorded: Recorded[Any]) -> None:
        """`recorded`, the next fact of this goal, is part of the history."""
        self.position = recorded.position
        match recorded.fact:
            case GoalAccepted(goal=goal):
                self.goal = goal
            case GoalSteered() as fact:
                self._steer(fact)
            case CandidateProposed() as fact:
                self._propose(recorded, fact)
            case CandidateMeasured() as fact:
                self._measure(recorded.envelope.causation_id, fact)
            case CandidateRemeasured(candidate_id=id_, comparison=comparison):
                self._remeasure(id_, comparison)
            case MeasurementRefused(candidate_id=id_, reason=reason):
                self._refuse(id_, reason)
            case CandidateRejected(candidate_id=id_, reason=reason):
                self._settle(id_, rejected=reason)
            case CandidateAbandoned(candidate_id=id_):
                self._abandon(id_)
            case GenerationClosed():
                self._close_generation()
            case FinalistRejected(candidate_id=id_):
                self._disproven.add(id_)
            case GoalTimedOut(phase=Phase.SEARCH):
                self._timed_out = True
            case _:
                pass

    # ---- what the brief takes from it -----------------------------------------------------------------------------

    @property
    def tried(self) -> tuple[Tried, ...]:
        """Every candidate, in the order proposed."""
        return tuple(self._tried.values())

    @property
    def known(self) -> frozenset[str]:
        """Fingerprints proposed in this goal without being abandoned, and those that a person banned."""
        return frozenset(self._standing) | {ban.fingerprint for ban in self.bans if ban.fingerprint}

    @property
    def best(self) -> Tried | None:
        return self._best

    @property
    def archive(self) -> Mapping[Cell, Tried]:
        """MAP-Elites: the best measured candidate of each cell."""
        return dict(self._archive)

    @property
    def credit(self) -> tuple[Credit, ...]:
        return tuple(self._credit)

    def elites(self, island: int) -> tuple[Tried, ...]:
        """The best measured candidates of an island, best first."""
        return tuple(elite.tried for elite in self._elites.get(island, ()))

    def nominees(self) -> tuple[Tried, ...]:
        """Pinned candidates, then every other that is worth a finals place and not banned, each with
        the longest measured and best first. None that was a finalist before and was rejected."""
        left = [tried for id_, tried in self._tried.items() if id_ not in self._disproven]
        pinned = [tried for tried in left if tried.id in self._pins]
        worthy = [t for t in left if t.worth_more and t not in pinned and not self._banned(t)]
        return (*sorted(pinned, key=standing), *sorted(worthy, key=standing))

    @property
    def disproven(self) -> tuple[Tried, ...]:
        """Finalists that were rejected on the deep rungs."""
        return tuple(tried for id_, tried in self._tried.items() if id_ in self._disproven)

    def _banned(self, tried: Tried) -> bool:
        return any(ban.fingerprint == tried.fingerprint or ban.covers(tried.genome) for ban in self.bans)

    # ---- one method per fact ---------------------------------------------------------------------------------------

    def _propose(self, recorded: Recorded[Any], fact: CandidateProposed) -> None:
        kernel = fact.kernel
        self._standing[kernel.fingerprint] += 1
        self._tried[recorded.id] = Tried(
            id=recorded.id,
            position=recorded.position,
            generation=fact.generation,
            island=fact.island,
            strategy=fact.strategy,
            language=kernel.language,
            genome=kernel.genome,
            fingerprint=kernel.fingerprint,
            cell=cell_of(kernel),
            parents=fact.parents,
            submitted=kernel if fact.submitted else None,
        )

    def _steer(self, fact: GoalSteered) -> None:
        match fact:
            case GoalSteered(action=SteerAction.EXTEND, extend=more) if more and self.goal:
                self.goal = extended(self.goal, more)
            case GoalSteered(action=SteerAction.HINT, hint=hint) if hint:
                self.hint = hint
            case GoalSteered(action=SteerAction.PIN, pin=pin) if pin:
                self._pins = (*self._pins, pin)
            case GoalSteered(action=SteerAction.BAN, ban=ban) if ban:
                self.bans = (*self.bans, ban)
            case _:
                pass

    def _measure(self, verified_id: UUID | None, fact: CandidateMeasured) -> None:
        value = worth_of(fact.comparison)
        tried = self._settle(
            fact.candidate_id,
            value is not None and self._improves_its_island(fact.candidate_id, value),
            search_ratio=ratio_of(fact.comparison),
            worth=value,
            looks=1 if value is not None else 0,
            worth_more=fact.worth_more and value is not None,
            verified_id=verified_id,
        )
        if tried is not None and value is not None:
            self._cells.setdefault(tried.cell, []).append(tried.id)
            self._rank(tried)

    def _remeasure(self, id_: UUID, comparison: Comparison) -> None:
        tried, value = self._tried.get(id_), worth_of(comparison)
        if tried is None or tried.worth is None or value is None or self._timed_out:
            return
        looks = tried.looks + 1
        self._replace(replace(tried, search_ratio=ratio_of(comparison), worth=value, looks=looks))

    def _refuse(self, id_: UUID, reason: Reason) -> None:
        tried = self._tried.get(id_)
        if tried is None or tried.rejected is not None or self._timed_out:
            return
        self._replace(replace(tried, search_ratio=None, worth=None, looks=0, worth_more=False, rejected=reason))

    def _replace(self, tried: Tried) -> None:
        """What was known of a ranked candidate is forgotten, and it is ranked again."""
        self._tried[tried.id] = tried
        elites = self._elites.get(tried.island, [])
        elites[:] = [elite for elite in elites if elite.tried.id != tried.id]
        ranked = [self._tried[id_] for id_ in self._cells.get(tried.cell, ())]
        best = min((one for one in ranked if one.worth is not None), key=rank, default=None)
        if best is None:
            self._archive.pop(tried.cell, None)
        else:
            self._archive[tried.cell] = best
        if self._best is not None and self._best.id == tried.id:
            known = (one for one in self._tried.values() if one.worth is not None)
            self._best = min(known, key=standing, default=None)
        if tried.worth is not None:
            self._rank(tried)

    def _abandon(self, id_: UUID) -> None:
        tried = self._settle(id_, abandoned=True)
        if tried is None:
            return
        self._standing[tried.fingerprint] -= 1
        if self._standing[tried.fingerprint] <= 0:
            del self._standing[tried.fingerprint]

    def _close_generation(self) -> None:
        best = self._best.worth if self._best else None
        better = best is not None and (self._best_at_close is None or best > self._best_at_close)
        self.stale_generations = 0 if better else self.stale_generations + 1
        self._best_at_close = best

    def _settle(self, id_: UUID, improved: bool = False, **what: Any) -> Tried | None:
        """The candidate with its one terminal fact, or None when this one is late."""
        tried = self._tried.get(id_)
        if tried is None or tried.settled or self._timed_out:
            return None
        settled = replace(tried, settled=True, **what)
        self._tried[id_] = settled
        if not settled.abandoned:
            self._credit.append(Credit(settled.strategy, improved))
        return settled

    def _improves_its_island(self, id_: UUID, value: float) -> bool:
        tried = self._tried.get(id_)
        elites = self._elites.get(tried.island, []) if tried else []
        best = elites[0].tried.worth if elites else None
        return best is None or value > best

    def _rank(self, tried: Tried) -> None:
        elites = self._elites.setdefault(tried.island, [])
        insort(elites, Elite(tried))
        del elites[ELITES_PER_ISLAND:]
        held = self._archive.get(tried.cell)
        if held is None or rank(tried) < rank(held):
            self._archive[tried.cell] = tried
        if self._best is None or standing(tried) < standing(self._best):
            self._best = tried
