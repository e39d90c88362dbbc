"""Makes the golden PTX of all kernels and mutants again: `python -m kernel_lab.ptx.kernels.build [--check]`.

With --check nothing is written: it names what differs and exits 1. Exit 2 when NVRTC is missing.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from kernel_lab.ptx.kernels.catalogue import KERNELS
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, cuda_source
from kernel_lab.ptx.kernels.mutants import MUTANTS
from kernel_lab.ptx.kernels.nvrtc import NoCudaCompiler, compiled

GOLDEN = Path(__file__).parent / "golden"


def rebuilt(architecture: str) -> Iterator[tuple[str, str]]:
    """(name, PTX) of every source and mutant for `architecture`, compiled now. Mutants carry no line information."""
    sources = {kernel.source for kernel in KERNELS if architecture in kernel.architectures}
    for name in sorted(sources):
        yield name, compiled(cuda_source(name), name, architecture)
    for mutant in MUTANTS:
        if architecture in mutant.kernel.architectures:
            yield f"mutants/{mutant.name}", compiled(mutant.source(), mutant.name, architecture, line_info=False)


def differing(architecture: str) -> list[str]:
    """Names of committed PTX that is not what the compiler makes now; missing and left-over files count."""
    now = dict(rebuilt(architecture))
    folder = GOLDEN / architecture
    committed = {str(path.relative_to(folder).with_suffix("")): path.read_text() for path in folder.rglob("*.ptx")}
    return sorted(name for name in now.keys() | committed.keys() if now.get(name) != committed.get(name))


def write(architecture: str) -> int:
    """How many files were written; left-over ones are removed."""
    folder = GOLDEN / architecture
    now = dict(rebuilt(architecture))
    for path in folder.rglob("*.ptx"):
        if str(path.relative_to(folder).with_suffix("")) not in now:
            path.unlink()
    for name, ptx in now.items():
        path = folder / f"{name}.ptx"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ptx)
    return len(now)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args().check
    try:
        if not check:
            print(sum(write(architecture) for architecture in ARCHITECTURES), "files written")
            return 0
        stale = [f"{architecture}/{name}" for architecture in ARCHITECTURES for name in differing(architecture)]
    except NoCudaCompiler as fault:
        print(fault, file=sys.stderr)
        return 2
    print("\n".join(stale) or "all golden PTX is what the compiler makes")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
