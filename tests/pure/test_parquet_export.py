"""Parquet is another vessel for the same lines; without pyarrow the remedy is named."""

import builtins
from pathlib import Path
from typing import Any

import pytest

from schemas.faults import Broken, Misconfigured
from services.evidence.export import Selection, export
from services.evidence.export_file import ExportFile
from services.evidence.memory_log import MemoryLog
from services.evidence.parquet import ParquetFile
from services.evidence.verify import Trust, verify
from tests.fixtures.facts import BEGIN, incoming
from tests.fixtures.signed import TRUSTED, signed_story


async def written(path: Path) -> MemoryLog:
    """A signed log, exported to `path`."""
    log = MemoryLog()
    await log.append(incoming(signed_story("g1", candidates=400)))
    with ParquetFile(path) as out:
        async for line in export(log, Selection(), BEGIN, "0.1.0"):
            out.write(line)
    return log


def test_without_pyarrow_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(Misconfigured, match=r"pip install 'assay\[parquet\]'"):
        ParquetFile(tmp_path / "x.parquet")


async def test_a_log_comes_back_from_parquet_whole_and_verifies(tmp_path: Path) -> None:
    log = await written(tmp_path / "log.parquet")
    file = ExportFile(tmp_path / "log.parquet")
    assert [row.raw async for row in file.rows()] == [row.raw async for row in log.rows()]
    found = await verify(file, trust=Trust(TRUSTED))
    assert found.first_break is None
    assert found.head == await log.head()


async def test_parquet_can_be_asked_by_type_and_goal(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet

    await written(tmp_path / "log.parquet")
    table = parquet.read_table(tmp_path / "log.parquet").to_pylist()
    measured = [row for row in table if row["type"] == "candidate.measured.v1"]
    assert len(measured) == 399
    assert {row["goal_id"] for row in measured} == {"g1"}
    assert all(row["recorded_at"].tzinfo is not None for row in measured)


async def test_a_damaged_or_foreign_parquet_file_is_said(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    await written(tmp_path / "log.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "log.parquet").read_bytes()[:-100])
    with pytest.raises((Misconfigured, Broken), match=r"cut\.parquet"):
        ExportFile(tmp_path / "cut.parquet")
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(Misconfigured, match="no export"):
        ExportFile(tmp_path / "other.parquet")
