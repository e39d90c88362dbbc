"""`assay counterexample`: inputs that caught candidates, tried first on every later one of their workload."""

import asyncio
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, NoReturn
from uuid import UUID

import typer

from schemas.envelope import Recorded
from schemas.events import CounterexampleKept, CounterexampleWithdrawn, WithdrawalRefused
from schemas.faults import Misconfigured
from schemas.requests import WithdrawCounterexample
from services.console.asking import withdraw_counterexample
from services.console.commands.events import parse_id
from services.console.endpoints import open_log
from services.console.exits import Exit, exit_with
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, say, stdout
from services.runtime.settings import read_settings

app = typer.Typer(no_args_is_help=True, help="Inputs that caught candidates, tried first on every later one.")

COLUMNS = (
    Column("id", "counterexample"),
    Column("workload", "workload"),
    Column("axes", "size", lambda axes: "×".join(f"{name}{extent}" for name, extent in axes.items())),
    Column("distribution", "drawn from"),
    Column("seed", "seed"),
    Column("alignment", "placed"),
    Column("found_by", "first caught"),
    Column("withdrawn", "withdrawn because"),
)
IdArgument = Annotated[str, typer.Argument(help="Its id in `assay counterexample list`.")]


@dataclass
class Collection:
    """Kept inputs in order, and why some were withdrawn."""

    rows: dict[UUID, dict[str, Any]] = field(default_factory=dict)

    def add(self, recorded: Recorded[Any]) -> None:
        match recorded.fact:
            case CounterexampleKept(goal_id=goal_id, counterexample=found):
                told = found.model_dump(mode="json")
                self.rows[recorded.id] = {"id": str(recorded.id), "goal_id": goal_id, **told, "withdrawn": None}
            case CounterexampleWithdrawn(counterexample=gone, reason=reason):
                same = gone.model_dump(mode="json", exclude={"found_by"})
                for row in self.rows.values():
                    if same.items() <= row.items():
                        row["withdrawn"] = reason

    def chosen(self, workload: str | None, everything: bool) -> Iterator[dict[str, Any]]:
        for row in self.rows.values():
            if workload in (None, row["workload"]) and (everything or row["withdrawn"] is None):
                yield row


@app.command("list")
def list_(
    workload: Annotated[str | None, typer.Option("--workload", help="Only of this workload.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Those that were withdrawn too.")] = False,
    output: OutputOption = Format.TEXT,
) -> None:
    """Kept inputs, the oldest first: generator and seed, never bulk data.

    Example: assay counterexample list --workload rms_norm
    """
    collected = asyncio.run(_collected())
    emit_records(list(collected.chosen(workload, everything)), output, COLUMNS, "no counterexamples")


@app.command()
def remove(
    counterexample: IdArgument,
    reason: Annotated[str, typer.Option("--reason", help="Why it is no evidence; recorded for good.")],
    output: OutputOption = Format.TEXT,
) -> None:
    """Withdraw one: it is tried no more and not kept again. The log keeps it, and why.

    Example: assay counterexample remove ID --reason "the bound of softmax was too tight"
    """
    kept_id = parse_id(counterexample)
    if not reason.strip():
        raise Misconfigured("--reason is empty: say why this input is no evidence")
    body = WithdrawCounterexample(reason=reason, nonce=secrets.token_hex(8)).model_dump_json().encode()
    answer = asyncio.run(withdraw_counterexample(read_settings(), kept_id, body))
    if isinstance(answer, WithdrawalRefused):
        _refused(answer, output)
    record = {"id": str(kept_id), "reason": reason}
    emit_record(record, output, lambda: stdout().print(f"{kept_id}: withdrawn"))


async def _collected() -> Collection:
    collected = Collection()
    async with open_log() as log:
        async for recorded in log.read(types=(CounterexampleKept, CounterexampleWithdrawn)):
            collected.add(recorded)
    return collected


def _refused(answer: WithdrawalRefused, output: Format) -> NoReturn:
    if output is not Format.TEXT:
        columns = (Column("path", "where"), Column("message", "what"), Column("hint", "hint"))
        emit_records([problem.model_dump(mode="json") for problem in answer.problems], output, columns, "")
    say("it was not withdrawn")
    for problem in answer.problems:
        say(f"  {problem.path}: {problem.message}" + (f" ({problem.hint})" if problem.hint else ""))
    exit_with(Exit.FAILED)
