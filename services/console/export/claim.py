"""The claim about a champion, as the log states it: what was raced against what, where, and what came out."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernel_lab.backends.gcc import compile_command, link_command
from kernel_lab.backends.toolchain import Toolchain
from kernel_lab.baselines import contenders
from kernel_lab.workloads import WORKLOADS
from kernel_lab.workloads.workload import Workload
from schemas.enums import Language
from schemas.envelope import Recorded
from schemas.events import BaselineChosen, ChampionCrowned, Fact, GoalAccepted, GoalCompleted, RaceDue
from schemas.faults import Fault, Misconfigured
from schemas.measurement import Contender, ShapeResult
from schemas.work import Baseline, Kernel, MachineClass, Task
from services.console.exits import Exit
from services.evidence.log import Log

F = TypeVar("F", bound=Fact)


class NoChampion(Fault):
    """The goal has crowned nobody, so there is nothing to take home."""

    exit_status = int(Exit.NO_IMPROVEMENT)


@dataclass(frozen=True)
class Arm:
    """A kernel that the benchmark builds and times."""

    name: str
    kernel: Kernel
    command: tuple[str, ...]
    """Compile line, `&&`, link line, with `k.c`, `k.o` and `k.so`."""
    threads: int
    sha256: str | None
    """Of the object that was raced; None when that object was never this arm's."""


@dataclass(frozen=True)
class TimedShape:
    """One row of the claim."""

    row: ShapeResult
    opponent: Arm
    """The baseline of the claim, or where that is a library the strongest C baseline."""
    library_ns: float | None
    """What the C opponent took when baselines were raced, where it stands in for a library."""

    @property
    def stands_in(self) -> bool:
        """The claim is against a library, which a C benchmark cannot call."""
        return self.opponent.name != self.row.baseline


@dataclass(frozen=True)
class Claim:
    """A champion and what is claimed of it."""

    workload: Workload
    task: Task
    crowned: Recorded[ChampionCrowned]
    champion: Arm
    shapes: tuple[TimedShape, ...]

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The champion first, then each opponent once."""
        return tuple({arm.name: arm for arm in (self.champion, *(shape.opponent for shape in self.shapes))}.values())


async def read_claim(log: Log, goal_id: str) -> Claim:
    """The claim about the champion of `goal_id`.

    Raises Misconfigured for an unknown goal or a champion that no C compiler can build, NoChampion when there is none.
    """
    wanted = (GoalAccepted, BaselineChosen, RaceDue, ChampionCrowned, GoalCompleted)
    facts = [recorded async for recorded in log.read(goal_id=goal_id, types=wanted)]
    if _last(facts, GoalAccepted) is None:
        raise Misconfigured(f"no goal {goal_id!r} in the log; `assay goal list` shows which there are")
    crowned, due, chosen = _last(facts, ChampionCrowned), _last(facts, RaceDue), _last(facts, BaselineChosen)
    if crowned is None or due is None or chosen is None:
        ended = _last(facts, GoalCompleted)
        why = f"it ended with {ended.fact.outcome}" if ended else "it is still running"
        raise NoChampion(f"goal {goal_id} has no champion to export: {why}; `assay champion report {goal_id}`")
    return claim_of(crowned, due.fact.task, chosen.fact.race.contenders)


def claim_of(crowned: Recorded[ChampionCrowned], task: Task, contenders: tuple[Contender, ...]) -> Claim:
    """The claim that these facts make. Raises Misconfigured when the champion is no C kernel."""
    build = crowned.fact.build
    if build.kernel.language is not Language.C:
        raise Misconfigured(f"the champion is in {build.kernel.language}; only a C champion can be built by itself")
    champion = Arm("champion", build.kernel, build.command, _threads(build.kernel, task), build.object.sha256)
    rows = crowned.fact.comparison.shapes
    shapes = tuple(_timed(row, index, task, contenders, build.toolchain) for index, row in enumerate(rows))
    return Claim(WORKLOADS[crowned.fact.workload], task, crowned, champion, shapes)


def _timed(row: ShapeResult, index: int, task: Task, contenders: tuple[Contender, ...], toolchain: str) -> TimedShape:
    baseline = next((one for one in task.baselines if one.name == row.baseline and one.axes == row.axes), None)
    if baseline is not None and baseline.artifact is not None:
        return TimedShape(row, _raced(baseline, task), None)
    strongest = _strongest_c(index, contenders)
    return TimedShape(row, _rebuilt(strongest.name, task, toolchain), strongest.median_ns[index])


def _raced(baseline: Baseline, task: Task) -> Arm:
    """A baseline whose object was raced."""
    assert baseline.artifact is not None
    build = baseline.artifact
    name = f"previous_{baseline.name}" if baseline.name == "champion" else baseline.name
    return Arm(name, build.kernel, build.command, _threads(build.kernel, task), build.object.sha256)


def _strongest_c(index: int, contenders: tuple[Contender, ...]) -> Contender:
    timed = [one for one in contenders if one.name.startswith("c_") and one.median_ns]
    if not timed:
        raise Misconfigured("the claim is against a library, and no C baseline was timed beside it to stand in for it")
    return min(timed, key=lambda one: one.median_ns[index])


def _rebuilt(name: str, task: Task, toolchain: str) -> Arm:
    """A C baseline that was timed and not kept: its source comes with Assay."""
    limit = _limit(task)
    specs = {spec.name: spec for spec in contenders(task.workload, task.machine, limit)}
    if name not in specs or (kernel := specs[name].kernel) is None:
        raise Misconfigured(f"the baseline {name} does not come with this Assay; export with the one that raced it")
    return Arm(name, kernel, _default_line(task.machine, kernel, toolchain), _threads(kernel, task), None)


def _default_line(machine: MachineClass, kernel: Kernel, toolchain: str) -> tuple[str, ...]:
    compiler = Toolchain(Path("gcc"), toolchain, "")
    linking = link_command(compiler, machine)
    return (*compile_command(compiler, machine, kernel.flags), "&&", *linking)


def _threads(kernel: Kernel, task: Task) -> int:
    return min(kernel.threads or task.machine.threads, _limit(task))


def _limit(task: Task) -> int:
    return min(task.constraints.max_threads or task.machine.threads, task.machine.threads)


def _last(facts: Iterable[Recorded[Any]], type_: type[F]) -> Recorded[F] | None:
    found = [recorded for recorded in facts if isinstance(recorded.fact, type_)]
    return found[-1] if found else None
