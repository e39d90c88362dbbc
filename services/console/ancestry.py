"""Where candidates come from: parents, what changed from one to the next, and what became of each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from schemas.envelope import Recorded
from schemas.events import (
    CandidateAbandoned,
    CandidateMeasured,
    CandidateProposed,
    CandidateRejected,
    ChampionCrowned,
    Fact,
)
from schemas.faults import Misconfigured
from schemas.work import Gene, Kernel
from services.evidence.log import Log

FAMILY_FACTS: tuple[type[Fact], ...] = (
    CandidateProposed,
    CandidateMeasured,
    CandidateRejected,
    CandidateAbandoned,
    ChampionCrowned,
)
Change = Mapping[str, tuple[Gene | None, Gene | None]]
"""Gene to its value before and after; None where it is in one of the two only."""


@dataclass(frozen=True)
class Relative:
    """One candidate and what became of it."""

    id: UUID
    goal_id: str
    generation: int
    strategy: str
    author: str
    parents: tuple[UUID, ...]
    kernel: Kernel
    status: str = "proposed"
    search_ratio: float | None = None


@dataclass
class Family:
    """Candidates by id, goal by goal as they are asked for."""

    members: dict[UUID, Relative] = field(default_factory=dict)

    def add(self, facts: Iterable[Recorded[Any]]) -> None:
        """`facts` of FAMILY_FACTS, in log order, are known. The first end of a candidate counts, as in the search."""
        for recorded in facts:
            match recorded.fact:
                case CandidateProposed() as fact:
                    self.members[recorded.id] = _relative(recorded.id, fact)
                case CandidateMeasured(candidate_id=id_, comparison=comparison):
                    self._end(id_, "measured", comparison.ratio.estimate if comparison.ratio else None)
                case CandidateRejected(candidate_id=id_, reason=reason):
                    self._end(id_, f"rejected {reason}", None)
                case CandidateAbandoned(candidate_id=id_):
                    self._end(id_, "abandoned", None)
                case ChampionCrowned(candidate_id=id_) if id_ in self.members:
                    self.members[id_] = replace(self.members[id_], status="champion")
                case _:
                    pass

    def ancestors(self, id_: UUID) -> tuple[Relative, ...]:
        """Everyone known whom `id_` descends from, and itself: by generation, itself last."""
        found: dict[UUID, Relative] = {}
        waiting = [id_]
        while waiting:
            if (one := self.members.get(waiting.pop())) is not None and one.id not in found:
                found[one.id] = one
                waiting += one.parents
        own = found.pop(id_)
        return (*sorted(found.values(), key=lambda one: (one.generation, str(one.id))), own)

    def to_best(self, id_: UUID) -> tuple[Relative, ...]:
        """From `id_` to the best search ratio among its descendants, one parent and child after the other."""
        children: dict[UUID, list[UUID]] = {}
        for one in self.members.values():
            for parent in one.parents:
                children.setdefault(parent, []).append(one.id)
        came_from: dict[UUID, UUID | None] = {id_: None}
        waiting = [id_]
        while waiting:
            parent = waiting.pop(0)
            for child in children.get(parent, ()):
                if child not in came_from:
                    came_from[child] = parent
                    waiting.append(child)
        best = max(came_from, key=lambda one: self.members[one].search_ratio or 0.0)
        path, at = [], best if self.members[best].search_ratio else id_
        step: UUID | None = at
        while step is not None:
            path.append(self.members[step])
            step = came_from[step]
        return tuple(reversed(path))

    def _end(self, id_: UUID, status: str, ratio: float | None) -> None:
        one = self.members.get(id_)
        if one is not None and one.status == "proposed":
            self.members[id_] = replace(one, status=status, search_ratio=ratio)


async def family_of(log: Log, id_: UUID) -> Family:
    """The candidate, its whole goal, and the goals that its forebears came from. Raises Misconfigured when unknown."""
    family, asked = Family(), set[UUID]()
    waiting = [id_]
    while waiting:
        wanted = waiting.pop()
        if wanted in asked:
            continue
        asked.add(wanted)
        if wanted not in family.members:
            found = await log.get(wanted)
            if found is None or not isinstance(found.fact, CandidateProposed):
                if wanted == id_:
                    raise Misconfigured(f"{id_} is no candidate in this log; `assay candidate list` shows candidates")
                continue  # a parent of a log that was imported in part
            family.add([recorded async for recorded in log.read(goal_id=found.fact.goal_id, types=FAMILY_FACTS)])
        waiting += family.members[wanted].parents
    return family


def change_between(before: Kernel | None, after: Kernel) -> Change:
    """The genes, flags and threads in which two kernels differ, in the later one's order."""
    old, new = (_traits(kernel) if kernel else {} for kernel in (before, after))
    names = dict.fromkeys((*new, *old))
    return {name: (old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)}


def change_text(change: Change) -> str:
    """`tile 64 → 128, threads 1 → 2`."""
    return ", ".join(f"{name} {_shown(old)} → {_shown(new)}" for name, (old, new) in change.items())


def _shown(gene: Gene | None) -> str:
    return "-" if gene is None else str(gene)


def _traits(kernel: Kernel) -> dict[str, Gene | None]:
    return {**kernel.genome, "threads": kernel.threads, "flags": " ".join(kernel.flags)}


def _relative(id_: UUID, fact: CandidateProposed) -> Relative:
    return Relative(
        id=id_,
        goal_id=fact.goal_id,
        generation=fact.generation,
        strategy=fact.strategy,
        author=fact.author,
        parents=fact.parents,
        kernel=fact.kernel,
    )
