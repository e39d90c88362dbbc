"""The design spaces of this installation: Assay's own, joined by the operator's modules (ADR 0005)."""

from collections.abc import Iterable, Mapping
from importlib import import_module

from kernel_lab.spaces import SPACES
from kernel_lab.spaces.space import VARIANT, Space
from schemas.faults import Misconfigured
from schemas.work import Gene

Spaces = Mapping[tuple[str, str], Space]
"""By workload and language."""


def load_spaces(extra: tuple[str, ...]) -> Spaces:
    """Assay's design spaces joined by those of the modules `extra`. Raises Misconfigured, naming the wrong module."""
    return merged([SPACES, *(_spaces_of(name) for name in extra)])


def merged(tables: Iterable[Spaces]) -> Spaces:
    """One table: variants of later spaces join, or replace by name, those of earlier ones."""
    whole: dict[tuple[str, str], Space] = {}
    for table in tables:
        for key, space in table.items():
            known = whole[key].variants if key in whole else {}
            whole[key] = Space(space.workload, space.language, {**known, **space.variants})
    return whole


def tunables_of(space: Space) -> Mapping[str, tuple[Gene, ...]]:
    """Every tunable of any variant, the choice of variant among them, with all its values in order."""
    values: dict[str, tuple[Gene, ...]] = {VARIANT: tuple(space.variants)}
    for variant in space.variants.values():
        for tunable in variant.tunables:
            values[tunable.name] = tuple(dict.fromkeys((*values.get(tunable.name, ()), *tunable.values)))
    return values


def _spaces_of(module_name: str) -> Spaces:
    try:
        spaces: Spaces | None = getattr(import_module(module_name), "SPACES", None)
    except ImportError as error:
        raise Misconfigured(f"ASSAY_EXTRA_SPACES: {module_name} cannot be imported: {error}") from error
    if spaces is None:
        raise Misconfigured(f"ASSAY_EXTRA_SPACES: {module_name} defines no SPACES")
    return spaces
