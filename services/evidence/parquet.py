"""An export as Parquet, for people who ask a log questions in a data frame. Needs pyarrow (the extra `parquet`).

Column `line` holds each line of the JSON export, so nothing is lost and the same reader and digest apply. The others
say again what people filter by.
"""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from schemas.faults import Misconfigured
from schemas.model import Model
from services.evidence.export import EventLine, LeftOutLine, encoded

SUFFIX = ".parquet"
MAGIC = b"PAR1"
ROWS = 1000
"""Chosen: four megabytes of facts in memory at a time."""
HEADER_COLUMNS = {"type": "ce-type", "id": "ce-id", "source": "ce-source", "causation_id": "ce-causationid"}
GOAL_TOKEN = 5
"""Of `assay.fact.<noun>.<participle>.<route>.<goal_id>`."""


def pyarrow() -> tuple[ModuleType, ModuleType]:
    """`pyarrow` and `pyarrow.parquet`. Raises Misconfigured, with the remedy, where they are not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise Misconfigured("Parquet needs pyarrow: pip install 'assay[parquet]'; JSON lines need nothing") from None
    return pa, parquet


class ParquetFile:
    """Lines written as rows, a thousand at a time. A context manager: the file is complete once it is left."""

    def __init__(self, path: Path) -> None:
        arrow, parquet = pyarrow()
        text, whole = arrow.string(), arrow.int64()
        self._schema = arrow.schema(
            [("kind", text), ("position", whole), ("left_out_last", whole), ("goal_id", text)]
            + [("recorded_at", arrow.timestamp("us", tz="UTC"))]
            + [(name, text) for name in HEADER_COLUMNS]
            + [("body", text), ("line", text)]
        )
        self._table = arrow.Table
        self._rows: list[dict[str, Any]] = []
        self._writer = parquet.ParquetWriter(str(path), self._schema, compression="zstd")

    def write(self, line: Model) -> None:
        """`line` is the next row."""
        self._rows.append(_row(line))
        if len(self._rows) == ROWS:
            self._flush()

    def __enter__(self) -> "ParquetFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(self._table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


def texts(path: Path) -> Iterator[bytes]:
    """The lines that were written, as they stand in the JSON export. Raises Misconfigured for what is no such file."""
    arrow, parquet = pyarrow()
    try:
        with parquet.ParquetFile(str(path)) as file:
            if "line" not in file.schema_arrow.names:
                raise Misconfigured(f"{path} is Parquet and no export of Assay: it has no column `line`")
            for batch in file.iter_batches(ROWS, columns=["line"]):
                for line in batch.column(0).to_pylist():
                    yield f"{line}\n".encode()
    except arrow.ArrowException as error:
        raise Misconfigured(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from error


def is_parquet(path: Path) -> bool:
    """The file says so itself."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _row(line: Model) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": line.model_dump()["kind"], "line": encoded(line).decode().rstrip("\n")}
    if isinstance(line, LeftOutLine):
        row |= {"position": line.first, "left_out_last": line.last}
    if isinstance(line, EventLine):
        headers = line.headers or {}
        row |= {name: headers.get(header) for name, header in HEADER_COLUMNS.items()}
        row |= {"position": line.position, "recorded_at": line.recorded_at, "body": line.body}
        row["goal_id"] = _goal(line.subject or "")
    return row


def _goal(subject: str) -> str | None:
    tokens = subject.split(".")
    return tokens[GOAL_TOKEN] if len(tokens) == GOAL_TOKEN + 1 and tokens[GOAL_TOKEN] != "none" else None
