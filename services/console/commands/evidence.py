"""`assay events export | import | imports`: evidence that moves, and is verified before it is believed."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from schemas.faults import Broken, Misconfigured
from schemas.model import Model
from services.console.endpoints import open_home, open_log, open_recorder
from services.console.output import Column, Format, OutputOption, emit_record, emit_records, progress_steps, say, stdout
from services.console.trust import trust_of
from services.console.verification import verification_text
from services.evidence.export import End, Selection, encoded, export
from services.evidence.export_file import ExportFile
from services.evidence.parquet import SUFFIX, ParquetFile
from services.evidence.postgres_imports import TakenIn, take_in
from services.evidence.verify import verify
from services.runtime.settings import read_settings

STDOUT = Path("-")
IMPORT_COLUMNS = (
    Column("origin", "origin"),
    Column("position", "ended at"),
    Column("partial", "partial"),
    Column("hash", "with hash"),
)


def register(app: typer.Typer) -> None:
    """These commands stand under `assay events`."""
    app.command("export")(export_)
    app.command("import")(import_)
    app.command("imports")(imports)


def export_(
    file: Annotated[Path, typer.Argument(help="Where to; - is stdout.")],
    goal: Annotated[str | None, typer.Option("--goal", help="Only this goal.")] = None,
    type_: Annotated[list[str] | None, typer.Option("--type", help="Only these types (repeatable).")] = None,
    after: Annotated[int, typer.Option(min=0, help="Only positions after this one.")] = 0,
    upto: Annotated[int | None, typer.Option(min=1, help="Only positions up to this one.")] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="An imported log instead of this one.")] = None,
) -> None:
    """Write the log, or a part of it, as lines of JSON that can be verified without any database.

    Facts travel byte for byte, in order, streamed. Whatever is left out is named by its positions and the chain's hash
    after it, and the export is labelled partial. The certificates of the keys always travel. A file that ends in
    .parquet becomes a Parquet table (needs pyarrow).

    Example: assay events export my-goal.jsonl --goal my-goal
    """
    settings, selection = read_settings(), Selection(goal, tuple(type_ or ()), after, upto)

    async def run() -> End:
        async with open_log(settings, origin) as log:
            head = (await log.head()).position
            if max(after, upto or 0) > head:
                raise Misconfigured(f"the log ends at position {head}; {max(after, upto or 0)} lies beyond it")
            with progress_steps() as step:
                now, assay = datetime.now(UTC), version("assay")
                return await write_export(
                    file, export(log, selection, now, assay, lambda row, of: step("exporting", row, of))
                )

    end = asyncio.run(run())
    partial = f", partial: {end.left_out} left out" if end.left_out else ", the whole log"
    say(f"{end.events} events{partial}; {'stdout' if file == STDOUT else file}")


async def write_export(file: Path, lines: AsyncIterator[Model]) -> End:
    """`lines` are in `file`, all of them or none. Raises Misconfigured when it cannot be written."""
    with _written_whole(file) as write:
        async for line in lines:
            write(line)
            if isinstance(line, End):
                return line
    raise Broken("an export ended without its end")


@contextmanager
def _written_whole(file: Path) -> Iterator[Callable[[Model], object]]:
    """Writes lines that are in `file` at the end, or nowhere. Raises Misconfigured when they cannot be written."""
    fresh = file.with_name(f"{file.name}.unfinished")
    try:
        if file == STDOUT:
            yield lambda line: sys.stdout.buffer.write(encoded(line))
            sys.stdout.buffer.flush()
            return
        with _sink(file, fresh) as write:
            yield write
        fresh.replace(file)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        where = "stdout" if file == STDOUT else file
        raise Misconfigured(f"{where} could not be written: {error.strerror}; nothing usable is left of it") from error
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


@contextmanager
def _sink(file: Path, fresh: Path) -> Iterator[Callable[[Model], object]]:
    if file.suffix == SUFFIX:
        with ParquetFile(fresh) as out:
            yield out.write
        return
    with fresh.open("wb") as out:
        yield lambda line: out.write(encoded(line))
        out.flush()
        os.fsync(out.fileno())


def import_(
    file: Annotated[Path, typer.Argument(help="An export.")],
    bootstrap_key: Annotated[
        list[str] | None,
        typer.Option("--bootstrap-key", help="Fingerprint of the other factory's key, got out of band."),
    ] = None,
    checkpoints: Annotated[
        Path | None, typer.Option("--checkpoints", help="Folder of the other factory's signed checkpoints.")
    ] = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Verify an export, then take it in under its own origin. A broken one is refused whole, with exit 6.

    Imported facts are read with --origin; no goal, leaderboard or lesson of this factory counts them. Importing again
    changes nothing.

    Example: assay events import their-log.jsonl --bootstrap-key 1f0c5e…
    """
    settings = read_settings()
    if not bootstrap_key:
        say("no --bootstrap-key: the signatures are checked against the key that the export itself names")
    trust = trust_of(settings, bootstrap_key or (), checkpoints, own=False)

    async def run() -> TakenIn:
        other = ExportFile(file)
        with progress_steps() as step:
            try:
                verified = await verify(other, lambda row, of: step("verifying", row, of), trust)
            except Broken as error:
                raise Broken(f"nothing was imported. {error}") from error
            if verified.first_break:
                raise Broken(f"nothing was imported. {file}: {verification_text(verified)}")
            async with open_recorder(settings) as home:
                return await take_in(home, other, datetime.now(UTC), lambda row, of: step("importing", row, of))

    done = asyncio.run(run())
    record = {"origin": done.origin, "new": done.new, "known": done.known, "own": done.own}
    emit_record(record, output, lambda: stdout().print(_said(done), markup=False))


def _said(done: TakenIn) -> str:
    if done.own:
        return f"a copy of this very log: {done.known} facts, all as they are here; nothing was imported"
    new = f"{done.new} facts of {done.origin} are new here, {done.known} were known"
    return f"{new}; read them with --origin {done.origin[:8]}"


def imports(output: OutputOption = Format.TEXT) -> None:
    """The logs of other factories that were imported here.

    Example: assay events imports
    """

    async def run() -> None:
        async with open_home() as home:
            records = [
                {
                    "origin": one.origin,
                    "position": one.head.position,
                    "hash": one.head.hash.hex(),
                    "partial": one.partial,
                }
                for one in await home.imports()
            ]
            emit_records(records, output, IMPORT_COLUMNS, "nothing was imported")

    asyncio.run(run())
