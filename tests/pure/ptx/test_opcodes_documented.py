"""docs/ptx-executor.md and the table of opcodes say the same, and the table is sound."""

from dataclasses import fields
from pathlib import Path

from kernel_lab.ptx.api import Checks, Kind, Verdict
from kernel_lab.ptx.opcodes.all import ENTRIES, TABLE
from kernel_lab.ptx.opcodes.listing import markdown

PAGE = (Path(__file__).parents[3] / "docs" / "ptx-executor.md").read_text(encoding="utf-8")


def test_the_page_has_the_table() -> None:
    assert PAGE.split("<!-- opcodes -->\n")[1].split("\n<!-- /opcodes -->")[0] == markdown()


def test_the_page_names_every_checker_kind_and_verdict() -> None:
    for field in fields(Checks):
        assert f"`{field.name}`" in PAGE or f"`…_{field.name.removeprefix('uninitialised_')}`" in PAGE
    for kind in Kind:
        assert f"`{kind}`" in PAGE or kind.startswith("uninitialised_")
    for verdict in Verdict:
        assert f"`{verdict}`" in PAGE


def test_every_entry_names_its_section_and_tier() -> None:
    for entry in ENTRIES:
        assert entry.section
        assert entry.tier in (0, 1, 2)
        assert entry.types
        assert not entry.needs & entry.types


def test_every_entry_can_be_reached() -> None:
    for entry in ENTRIES:
        for types in entry.types:
            assert TABLE.find(entry.name, types, entry.needs) is entry
