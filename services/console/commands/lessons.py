"""`assay lessons`: what the log has taught, over all goals."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Annotated, Any

import typer

from schemas.envelope import Recorded
from schemas.events import LessonRecorded
from schemas.lesson import Lesson
from services.console.commands.workload import find
from services.console.endpoints import open_log
from services.console.output import Column, Format, OutputOption, emit_page
from services.console.render import interval_text
from services.evidence.log import Log

COLUMNS = (
    Column("workload", "workload"),
    Column("machine", "machine class"),
    Column("statement", "lesson"),
    Column("effect_text", "search ratio with it over without"),
    Column("count", "counted"),
    Column("goal_id", "goal"),
)


def lessons(
    workload: Annotated[str | None, typer.Argument(help="Only this workload.")] = None,
    machine: Annotated[str | None, typer.Option("--machine", help="Only this machine class.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the greatest effect first.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Leave out this many first.")] = 0,
    output: OutputOption = Format.TEXT,
) -> None:
    """What the log has taught: gene values that help, hurt or fail, each with its evidence. Lessons are no results.

    Example: assay lessons rms_norm
    """
    name = find(workload).name if workload else None

    async def run() -> list[dict[str, Any]]:
        async with open_log() as log:
            return [record async for record in _records(log, name, machine)]

    emit_page(
        asyncio.run(run())[offset:], limit, offset, output, COLUMNS, "no lessons yet: they need a few generations"
    )


async def _records(log: Log, workload: str | None, machine: str | None) -> AsyncIterator[dict[str, Any]]:
    told = [recorded async for recorded in log.read(types=(LessonRecorded,))]
    for recorded in latest(told):
        record = lesson_record(recorded)
        if workload in (None, record["workload"]) and machine in (None, record["machine"]):
            yield record


def latest(told: list[Recorded[LessonRecorded]]) -> list[Recorded[LessonRecorded]]:
    """The last word on each topic of a workload and machine class, the greatest effect first, then failures."""
    by_topic = {}
    for recorded in told:
        lesson = recorded.fact.lesson
        topic = (lesson.workload, tuple(sorted(lesson.condition.items())), lesson.effect is None)
        by_topic[topic] = recorded
    return sorted(by_topic.values(), key=lambda recorded: _weight(recorded.fact.lesson))


def _weight(lesson: Lesson) -> tuple[str, bool, float, int]:
    """What makes a difference comes before what no longer does."""
    effect = lesson.effect
    is_open = effect is not None and effect.low <= 1 <= effect.high
    size = abs(math.log(effect.estimate)) if effect else 0.0
    return (lesson.workload, is_open, -size, -sum(lesson.failures.values()))


def lesson_record(recorded: Recorded[LessonRecorded]) -> dict[str, Any]:
    """A lesson and the evidence it names, as JSON."""
    fact = recorded.fact
    lesson = fact.lesson
    return {
        "workload": lesson.workload,
        "machine": lesson.condition.get("machine", ""),
        "gene": lesson.condition.get("gene", ""),
        "value": lesson.condition.get("value", ""),
        "statement": lesson.statement,
        "effect": lesson.effect.model_dump(mode="json") if lesson.effect else None,
        "effect_text": interval_text(lesson.effect) if lesson.effect else "rejected, mostly",
        "count": lesson.count,
        "failures": lesson.failures,
        "goal_id": fact.goal_id,
        "generation": fact.generation,
        "position": recorded.position,
        "evidence": [str(id_) for id_ in fact.evidence],
    }
