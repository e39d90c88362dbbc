"""The PTX in this package: what NVRTC made of our kernels and mutants, so that nothing here needs a CUDA compiler."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
"""The oldest that has mma.sync and cp.async, the first with bulk copies, and the first of the untyped front end."""


def cuda_source(name: str) -> str:
    """The CUDA source `name`.cu."""
    return (_package() / "cuda" / f"{name}.cu").read_text(encoding="utf-8")


def golden_ptx(name: str, architecture: str) -> str:
    """The committed PTX of the source `name` for `architecture`; mutants are named `mutants/<name>`."""
    return (_package() / "golden" / architecture / f"{name}.ptx").read_text(encoding="utf-8")


def golden_names(architecture: str) -> Iterator[str]:
    """Every name that `golden_ptx` knows for `architecture`."""
    folder = _package() / "golden" / architecture
    for prefix, place in (("", folder), ("mutants/", folder / "mutants")):
        yield from (prefix + each.name.removesuffix(".ptx") for each in place.iterdir() if each.name.endswith(".ptx"))


def _package() -> Traversable:
    return files(__package__)
