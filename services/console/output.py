"""Data on stdout, chatter on stderr, one format for every command: text, json, jsonl or csv."""

import csv
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


class Format(StrEnum):
    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


OutputOption = Annotated[Format, typer.Option("--output", "-o", help="text, json, jsonl or csv. Data go to stdout.")]

Record = Mapping[str, Any]
PIPE_WIDTH = 200
"""Chosen: a row of the widest table."""


@dataclass(frozen=True)
class Column:
    """One column of a text table: a key of the record, its heading, and how a value is shown."""

    key: str
    heading: str
    show: Callable[[Any], str] = str


def stdout() -> Console:
    """The console for data."""
    return _console(sys.stdout)


def stderr() -> Console:
    """The console for progress and chatter."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    """As wide as the terminal; where there is none, wide enough that pipes get whole lines."""
    return Console(file=file, highlight=False, width=None if file.isatty() else PIPE_WIDTH)


def say(text: str) -> None:
    """`text` is on stderr."""
    stderr().print(text, markup=False, soft_wrap=True)


def emit_records(records: Sequence[Record], output: Format, columns: Sequence[Column], empty: str) -> None:
    """A list is on stdout in the format asked for; `empty` says on stderr why a text table has no rows."""
    match output:
        case Format.JSON:
            print(json.dumps(list(records), indent=2, ensure_ascii=False))
        case Format.JSONL:
            emit_lines(records)
        case Format.CSV:
            _emit_csv(records, [column.key for column in columns])
        case Format.TEXT:
            _emit_table(records, columns, empty)


def emit_page(
    records: Sequence[Record], limit: int, offset: int, output: Format, columns: Sequence[Column], empty: str
) -> None:
    """At most `limit` of `records`, which begin at `offset` and may be more; stderr says how to see what follows."""
    emit_records(records[:limit], output, columns, empty if not offset else f"nothing follows after {offset}")
    if len(records) > limit:
        say(f"{limit} shown, more follow: go on with --offset {offset + limit}")


def emit_record(record: Record, output: Format, text: Callable[[], None]) -> None:
    """One object is on stdout; `text` prints it for people."""
    match output:
        case Format.JSON:
            print(json.dumps(record, indent=2, ensure_ascii=False))
        case Format.JSONL:
            emit_lines([record])
        case Format.CSV:
            _emit_csv([record], list(record))
        case Format.TEXT:
            text()


def emit_lines(records: Iterable[Record]) -> None:
    """One JSON object a line, flushed, for pipes."""
    for record in records:
        print(json.dumps(record, ensure_ascii=False), flush=True)


def _emit_csv(records: Sequence[Record], keys: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, fieldnames=list(keys), extrasaction="ignore")
    writer.writeheader()
    for record in records:
        writer.writerow({key: _flat(record.get(key)) for key in keys})


def _flat(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | tuple) else value


def _emit_table(records: Sequence[Record], columns: Sequence[Column], empty: str) -> None:
    if not records:
        say(empty)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.heading, overflow="fold")
    for record in records:
        table.add_row(*("" if record.get(c.key) is None else c.show(record[c.key]) for c in columns))
    stdout().print(table, markup=False)


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """A database row as JSON values."""
    return {key: _plain_value(value) for key, value in row.items()}


def _plain_value(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str | dict | list) else str(value)


LINE_EVERY_S = 10.0
"""Longest silence of a long step that is not on a terminal. Chosen: a log stays short, and nobody thinks it hangs."""


@contextmanager
def progress_steps() -> Iterator[Callable[[str, int, int], None]]:
    """A function `(what, done, total)` that shows progress on stderr: a bar on a terminal, a plain line now and then
    elsewhere."""
    if not sys.stderr.isatty():
        yield PlainSteps(say, time.monotonic)
        return
    with Progress(console=stderr(), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda what, done, total: bar.update(task, description=what, completed=done, total=total)


class PlainSteps:
    """Progress as lines: one for each new step, and one every LINE_EVERY_S of a long one."""

    def __init__(self, say: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._say = say
        self._clock = clock
        self._step: str | None = None
        self._said_at = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        now = self._clock()
        if what == self._step and now - self._said_at < LINE_EVERY_S:
            return
        self._step, self._said_at = what, now
        self._say(f"{what} {done}/{total}" if total else what)
