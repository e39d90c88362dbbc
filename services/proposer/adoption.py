"""What a submission is worth to a search: a point of the space when it is one, else a source to launch differently."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from uuid import UUID

from kernel_lab.spaces.launch import PREFIX, Launch, launch_line
from schemas.enums import Language
from schemas.work import Genome, Kernel
from services.evidence.brief import Brief
from services.evidence.search_history import Tried
from services.proposer.terrain import Terrain

WIDTH = "-mprefer-vector-width="
MORE_FLAGS: tuple[tuple[str, ...], ...] = (
    (),
    (f"{WIDTH}512",),
    (f"{WIDTH}256",),
    ("-funroll-loops",),
    (f"{WIDTH}512", "-funroll-loops"),
)
"""What a compiler may make of the same source (measurement.md, The baseline, tries the like on every baseline)."""


def adopted(brief: Brief, terrains: Sequence[Terrain]) -> Brief:
    """`brief` with the genome of every submission that is a point of a space, so that it is a parent like any other."""
    genomes = dict(_matches(brief.tried, terrains))
    if not genomes:
        return brief

    def known(tried: Tried) -> Tried:
        return replace(tried, genome=genomes[tried.id]) if tried.id in genomes else tried

    return replace(
        brief,
        tried=tuple(map(known, brief.tried)),
        elites=tuple(tuple(map(known, island)) for island in brief.elites),
        archive={cell: known(tried) for cell, tried in brief.archive.items()},
        best=known(brief.best) if brief.best else None,
    )


def _matches(tried: Sequence[Tried], terrains: Sequence[Terrain]) -> Iterator[tuple[UUID, Genome]]:
    for one in tried:
        if one.submitted is None:
            continue
        for terrain in terrains:
            genome = terrain.genome_of(one.submitted) if terrain.language == one.language else None
            if genome is not None:
                yield one.id, genome


def relaunches(kernel: Kernel, terrain: Terrain) -> Iterator[Kernel]:
    """The same source with other threads and flags, as far as goal and machine allow; what is nearest comes first."""
    if kernel.language is not Language.C:
        return
    threads = sorted({1, terrain.around.threads} | ({kernel.threads} if kernel.threads else set()))
    flag_sets = dict.fromkeys([*(_with(kernel.flags, more) for more in MORE_FLAGS), ()])
    launches = [Launch(flags, count) for count, flags in product(threads, flag_sets)]
    for launch in sorted(launches, key=lambda launch: _distance(launch, kernel)):
        again = _relaunched(kernel, launch)
        if terrain.takes(again):
            yield terrain.aimed(again)


def _with(flags: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """`flags` and `more`; of two vector widths the new one."""
    rewidened = any(flag.startswith(WIDTH) for flag in more)
    kept = (flag for flag in flags if flag not in more and not (rewidened and flag.startswith(WIDTH)))
    return (*kept, *more)


def _distance(launch: Launch, kernel: Kernel) -> int:
    return (launch.threads != kernel.threads) + len(set(launch.flags) ^ set(kernel.flags))


def _relaunched(kernel: Kernel, launch: Launch) -> Kernel:
    first, _, rest = kernel.source.partition("\n")
    body = rest if first.strip().startswith(PREFIX) else kernel.source
    source = f"{launch_line(launch)}\n{body}"
    return kernel.model_copy(update={"source": source, "flags": launch.flags, "threads": launch.threads})
