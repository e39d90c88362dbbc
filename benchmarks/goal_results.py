"""What a real goal came to, kept whole: one record per workload and machine class. The results page is made of them."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from benchmarks.benchmark import Say
from benchmarks.circumstances import ROOT, circumstances
from benchmarks.factory import Factory, running_factory
from schemas.enums import EndedBy, Outcome
from schemas.envelope import Recorded
from schemas.events import BaselineChosen, CandidateProposed, ChampionCrowned, Fact, GoalCompleted, RaceFinished
from schemas.measurement import BaselineRace, Comparison, Entrant, MachineProfile, Pair
from schemas.model import Model
from schemas.work import Baseline, Genome
from services.runtime.artifacts import ArtifactStore

FOLDER = ROOT / "benchmarks" / "results" / "goals"
CODE = ("schemas", "kernel_lab", "services", "infra")
"""What a result depends on. A commit that changes only documents or results makes no result stale."""
GOAL_TIMEOUT_S = 3600.0

F = TypeVar("F", bound=Fact)
_PAIRS = TypeAdapter(tuple[Pair, ...])


class GoalResult(Model):
    """One goal, from its budget to its race."""

    workload: str
    route: str
    date: str
    commit: str
    """Of the code that searched and measured; `+` when it had changes."""
    model: str
    kernel: str
    load_1m: float
    """Before the goal began."""
    asked: dict[str, Any]
    outcome: Outcome
    ended_by: EndedBy
    message: str
    candidates: int
    seconds: float
    """From acceptance to the end, finals and gap included."""
    baselines: BaselineRace | None
    crowned: bool
    variant: str
    genome: Genome
    hold_out: Comparison | None
    """The champion's, else the best entrant's, its raw pairs with it; None when there was no race."""
    search_ratio: float | None
    a_a: Comparison | None
    machine: MachineProfile | None


GENERATION_SIZE = 16
"""Chosen: a search of ten minutes measured 64 to 120 kernels, and learns from each generation."""


def serving_goal(workload: str, candidates: int, wall_s: float) -> dict[str, Any]:
    """The goal behind a row of the page: every serving shape, weighted alike."""
    return {
        "name": f"results: {workload}",
        "workload": workload,
        "target": "cpu",
        "shapes": "serving",
        "budget": {"candidates": candidates, "wall": wall_s},
        "search": {"generation_size": GENERATION_SIZE},
    }


def measure(workload: str, asked: dict[str, Any], say: Say) -> GoalResult:
    """The goal has run in a factory of its own, so that nothing but the goal itself uses the machine."""
    at = circumstances()
    about: dict[str, Any] = {
        "route": at.route,
        "date": at.date,
        "model": at.model,
        "kernel": at.kernel,
        "load_1m": at.load_1m,
    }
    with running_factory(null_route=False) as factory:
        facts = factory.run_goal(f"results-{workload}".replace("_", "-"), asked, GOAL_TIMEOUT_S, say)
        observed = factory.observed()
        found = _found(facts, observed, factory)
    return GoalResult(workload=workload, commit=code_commit(), asked=asked, **about, **found)


def keep(result: GoalResult, folder: Path = FOLDER) -> Path:
    """`result` is on disk, in place of an older one of the same workload and machine class."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.workload}-{result.route}.json"
    unfinished = path.with_suffix(".new")
    unfinished.write_text(result.model_dump_json(indent=1) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path


def kept(folder: Path = FOLDER) -> tuple[GoalResult, ...]:
    """Every result on disk, by workload and machine class."""
    return tuple(
        GoalResult.model_validate_json(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))
    )


def is_current(result: GoalResult, route: str, commit: str) -> bool:
    """It was measured on this machine class by this very code."""
    return (result.route, result.commit) == (route, commit) and not commit.endswith("+")


def code_commit() -> str:
    """The last commit that changed what a result depends on; `+` when the working tree differs from it."""
    head = _git("log", "-1", "--format=%h", "--abbrev=12", "--", *CODE)
    return (head or "unknown") + ("+" if _git("status", "--porcelain", "--", *CODE) else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    ).stdout.strip()


def _found(facts: Sequence[Recorded[Any]], observed: Sequence[Recorded[Any]], factory: Factory) -> dict[str, Any]:
    completed, chosen = _last(facts, GoalCompleted), _last(facts, BaselineChosen)
    raced, crowned = _last(facts, RaceFinished), _last(facts, ChampionCrowned)
    assert completed is not None, "run_goal waits for it"
    best = _best(raced, crowned)
    kernel = next((one.fact.kernel for one in facts if best is not None and one.id == best.candidate_id), None)
    store = ArtifactStore(factory.settings.artifacts)
    return {
        "outcome": completed.outcome,
        "ended_by": completed.ended_by,
        "message": completed.message,
        "candidates": sum(isinstance(one.fact, CandidateProposed) for one in facts),
        "seconds": (facts[-1].recorded_at - facts[0].recorded_at).total_seconds(),
        "baselines": without_places(chosen.race) if chosen else None,
        "crowned": crowned is not None,
        "variant": kernel.variant if kernel else "",
        "genome": kernel.genome if kernel else {},
        "hold_out": with_pairs(best.comparison, store) if best else None,
        "search_ratio": best.search_ratio if best else None,
        "a_a": raced.race.a_a.model_copy(update={"pairs": ()}) if raced else None,
        "machine": observed[-1].fact.profile if observed else None,
    }


def _last(facts: Sequence[Recorded[Any]], type_: type[F]) -> F | None:
    return next((one.fact for one in reversed(facts) if isinstance(one.fact, type_)), None)


def _best(raced: RaceFinished | None, crowned: ChampionCrowned | None) -> Entrant | None:
    """The champion; where nobody was crowned, the entrant with the best lower bound, else the first."""
    entrants = raced.race.entrants if raced else ()
    if crowned is not None:
        return next(entrant for entrant in entrants if entrant.candidate_id == crowned.candidate_id)
    return max(entrants, key=lambda one: one.comparison.ratio.low if one.comparison.ratio else 0.0, default=None)


def without_places(race: BaselineRace) -> BaselineRace:
    """The race with its objects named by their digests: the store that they lay in is gone with its factory."""

    def placeless(one: Baseline) -> Baseline:
        if one.artifact is None:
            return one
        stored = one.artifact.object
        named = stored.model_copy(update={"uri": f"sha256:{stored.sha256}"})
        return one.model_copy(update={"artifact": one.artifact.model_copy(update={"object": named})})

    return race.model_copy(update={"strongest": tuple(map(placeless, race.strongest))})


def with_pairs(comparison: Comparison, store: ArtifactStore) -> Comparison:
    """The comparison with its raw pairs inside, wherever they were kept."""
    if comparison.samples is None:
        return comparison
    return comparison.model_copy(update={"pairs": _PAIRS.validate_json(store.get(comparison.samples)), "samples": None})
