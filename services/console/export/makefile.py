"""The Makefile of an exported folder: the recorded compile lines, in the recorded file names, so that bytes repeat."""

import shlex
from collections.abc import Iterable

from services.console.export.c_tables import object_path
from services.console.export.claim import Arm, Claim

PROTOTYPE = "assay_abi.h"
"""As the backend calls the file that states the prototype."""
_OWN = ("-fmax-errors=20", "-ferror-limit=20")
"""About messages, not code; gcc and clang spell it differently."""


def library_name(claim: Claim) -> str:
    """`lib<workload>.so`."""
    return f"lib{claim.workload.name}.so"


def source_name(arm: Arm) -> str:
    """Where an arm's source lies in the folder."""
    return f"{arm.name}.c" if arm.name == "champion" else f"baseline_{arm.name}.c"


def makefile(claim: Claim) -> str:
    """`make` builds, `make run` repeats the claim, `make check` compares results only, `make digest` compares bytes."""
    library, objects = library_name(claim), " ".join(map(object_path, claim.arms))
    digests = [line for arm in claim.arms for line in _digest(arm)]
    return "\n".join(
        [
            "# Written by `assay champion export`. The compile lines are the recorded ones.",
            "ifeq ($(origin CC),default)",
            "CC := gcc",
            "endif",
            "",
            ".PHONY: all run check digest clean",
            f"all: {library} bench {objects}",
            "",
            f"{library}: {object_path(claim.champion)}",
            "\tcp $< $@",
            "",
            "bench: bench.c arm.h data.h claim.h",
            "\t$(CC) -std=gnu11 -O2 -Wall -Wextra -o $@ bench.c -lm -ldl",
            "",
            f"run: bench {objects}",
            "\t./bench",
            "",
            f"check: bench {objects}",
            "\t./bench --check",
            "",
            f"digest: {objects}",
            *digests,
            "",
            *(line for arm in claim.arms for line in _build(arm, claim)),
            "clean:",
            f"\trm -rf build bench {library}",
            "",
        ]
    )


def _build(arm: Arm, claim: Claim) -> Iterable[str]:
    folder, header = f"build/{arm.name}", f"{claim.workload.name}.h"
    compiling, linking = _lines(arm.command)
    return [
        f"{object_path(arm)}: {source_name(arm)} {header}",
        f"\tmkdir -p {folder}",
        f"\tcp {source_name(arm)} {folder}/k.c",
        f"\tcp {header} {folder}/{PROTOTYPE}",
        f"\tcd {folder} && {compiling}",
        f"\tcd {folder} && {linking}",
        "",
    ]


def _lines(command: tuple[str, ...]) -> tuple[str, str]:
    """Compile and link line with make's own compiler."""
    split = command.index("&&")
    parts = command[1:split], command[split + 2 :]
    compiling, linking = (shlex.join(part for part in each if part not in _OWN) for each in parts)
    return f"$(CC) {compiling}", f"$(CC) {linking}"


def _digest(arm: Arm) -> Iterable[str]:
    if arm.sha256 is None:
        return [f"\t@echo '{arm.name}: stands in for a library, so no object of it is recorded'"]
    same, other = "the same object as was raced", "another object than was raced: another compiler, most likely"
    test = f'test "$$(sha256sum < {object_path(arm)} | cut -d" " -f1)" = {arm.sha256}'
    return [f"\t@if {test}; then echo '{arm.name}: {same}'; else echo '{arm.name}: {other}'; fi"]
