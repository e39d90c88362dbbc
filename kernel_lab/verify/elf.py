"""What rung V0 reads of an object file: sections, symbols, imports, relocations. Nothing is loaded."""

import io
from collections.abc import Iterator
from dataclasses import dataclass

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import Section, SymbolTableSection

PAGE_BYTES = 4096
CRT_FUNCTIONS = ("deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy")
"""What crtbeginS.o puts into every shared object (gcc's crtstuff.c)."""


class Unreadable(ValueError):
    """The bytes are no ELF object that we can read. Translated at this border from pyelftools' own errors."""


@dataclass(frozen=True)
class SectionFact:
    name: str
    address: int
    size: int
    writable: bool
    executable: bool
    thread_local: bool


@dataclass(frozen=True)
class SymbolFact:
    name: str
    address: int
    size: int
    kind: str
    """`STT_FUNC`, `STT_OBJECT`, `STT_GNU_IFUNC`, …; pyelftools calls the last one `STT_LOOS`."""
    defined: bool
    exported: bool


@dataclass(frozen=True)
class Import:
    name: str
    library: str | None
    """The soname its version is needed from; None for an unversioned symbol."""


@dataclass(frozen=True)
class ObjectFile:
    """A shared object as data."""

    sections: tuple[SectionFact, ...]
    symbols: tuple[SymbolFact, ...]
    imports: tuple[Import, ...]
    needed: tuple[str, ...]
    relocation_targets: tuple[int, ...]
    """Addresses inside the object that the loader writes into it (RELATIVE addends and own symbols)."""
    irelative: bool
    executable_stack: bool
    mutable: tuple[range, ...]
    """Address ranges writable after loading: writable segments to their page's end, less the RELRO part."""

    def size_of(self, section: str) -> int:
        return sum(s.size for s in self.sections if s.name == section)

    def named(self, name: str) -> tuple[SymbolFact, ...]:
        return tuple(s for s in self.symbols if s.name == name and s.defined)


def read_object(data: bytes) -> ObjectFile:
    """`data` as facts. Raises Unreadable."""
    try:
        return _read(ELFFile(io.BytesIO(data)))
    except (ELFError, ValueError, KeyError, UnicodeDecodeError, AssertionError, OverflowError) as error:
        raise Unreadable(f"not a readable ELF object: {error}") from error


def _read(elf: ELFFile) -> ObjectFile:
    sections = tuple(elf.iter_sections())
    return ObjectFile(
        sections=tuple(_section(s) for s in sections if s["sh_flags"] & SH_FLAGS.SHF_ALLOC),
        symbols=tuple(_symbols(sections)),
        imports=tuple(_imports(sections)),
        needed=tuple(_needed(sections)),
        relocation_targets=tuple(_relocation_targets(sections)),
        irelative=any(kind in _IRELATIVE for kind, _ in _relocations(sections)),
        executable_stack=any(s["p_type"] == "PT_GNU_STACK" and s["p_flags"] & 1 for s in elf.iter_segments()),
        mutable=tuple(_mutable(elf)),
    )


_IRELATIVE = (37, 1032)
"""R_X86_64_IRELATIVE, R_AARCH64_IRELATIVE."""
_RELATIVE = (8, 1027)
"""R_X86_64_RELATIVE, R_AARCH64_RELATIVE."""


def _section(section: Section) -> SectionFact:
    flags = section["sh_flags"]
    return SectionFact(
        section.name,
        section["sh_addr"],
        section["sh_size"],
        bool(flags & SH_FLAGS.SHF_WRITE),
        bool(flags & SH_FLAGS.SHF_EXECINSTR),
        bool(flags & SH_FLAGS.SHF_TLS),
    )


def _tables(sections: tuple[Section, ...]) -> Iterator[SymbolTableSection]:
    return (s for s in sections if isinstance(s, SymbolTableSection))


def _symbols(sections: tuple[Section, ...]) -> Iterator[SymbolFact]:
    for table in _tables(sections):
        for symbol in table.iter_symbols():
            if symbol.name:
                yield SymbolFact(
                    symbol.name,
                    symbol["st_value"],
                    symbol["st_size"],
                    symbol["st_info"]["type"],
                    symbol["st_shndx"] != "SHN_UNDEF",
                    table.name == ".dynsym",
                )


def _imports(sections: tuple[Section, ...]) -> Iterator[Import]:
    libraries = _libraries(sections)
    versions = next((s for s in sections if isinstance(s, GNUVerSymSection)), None)
    for table in _tables(sections):
        if table.name != ".dynsym":
            continue
        for index, symbol in enumerate(table.iter_symbols()):
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF":
                version = versions.get_symbol(index)["ndx"] if versions else None
                yield Import(symbol.name, libraries.get(version) if isinstance(version, int) else None)


def _libraries(sections: tuple[Section, ...]) -> dict[int, str]:
    needs = next((s for s in sections if isinstance(s, GNUVerNeedSection)), None)
    if needs is None:
        return {}
    return {version["vna_other"]: str(need.name) for need, versions in needs.iter_versions() for version in versions}


def _needed(sections: tuple[Section, ...]) -> Iterator[str]:
    for section in sections:
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags():
                if tag.entry.d_tag == "DT_NEEDED":
                    yield str(getattr(tag, "needed"))  # noqa: B009 — set by pyelftools per tag kind


def _relocations(sections: tuple[Section, ...]) -> Iterator[tuple[int, int]]:
    """(type, address inside this object that it stores, or 0)."""
    tables = dict(enumerate(sections))
    for section in sections:
        if not isinstance(section, RelocationSection):
            continue
        symbols = tables.get(section["sh_link"])
        for relocation in section.iter_relocations():
            base, kind = 0, relocation["r_info_type"]
            if relocation["r_info_sym"] and isinstance(symbols, SymbolTableSection):
                base = symbols.get_symbol(relocation["r_info_sym"])["st_value"]
            addend = relocation["r_addend"] if section.is_RELA() and (base or kind in _RELATIVE) else 0
            yield kind, base + addend


def _relocation_targets(sections: tuple[Section, ...]) -> Iterator[int]:
    return (target for _, target in _relocations(sections) if target)


def _mutable(elf: ELFFile) -> Iterator[range]:
    segments = tuple(elf.iter_segments())
    relro = [range(s["p_vaddr"], s["p_vaddr"] + s["p_memsz"]) for s in segments if s["p_type"] == "PT_GNU_RELRO"]
    for segment in segments:
        if segment["p_type"] != "PT_LOAD" or not segment["p_flags"] & 2:
            continue
        start, end = segment["p_vaddr"], segment["p_vaddr"] + segment["p_memsz"]
        guarded = max((r.stop for r in relro if r.start <= start < r.stop), default=start)
        yield range(guarded, -(-end // PAGE_BYTES) * PAGE_BYTES)
