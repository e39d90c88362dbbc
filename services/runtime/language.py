"""A copy and its factory speak the same facts: a copy of another version is told so before it takes any work."""

from collections.abc import Set

from schemas.events import Fact
from schemas.faults import Misconfigured
from services.runtime.bus import FACTS_STREAM, Bus


async def require_same_language(bus: Bus, spoken: tuple[type[Fact], ...]) -> None:
    """The factory behind `bus` speaks `spoken`, what a service reads and states. Raises Misconfigured, saying which
    side is older."""
    known = (await bus.state(FACTS_STREAM)).language
    if problem := strange(known, frozenset(fact.TYPE for fact in spoken)):
        raise Misconfigured(problem)


def strange(known: Set[str], spoken: Set[str]) -> str | None:
    """What stands between a factory that knows `known` and a copy that speaks `spoken`; None when nothing does."""
    unknown = sorted(spoken - known)
    if not unknown:
        return None
    newest = dict(sorted(map(_parted, known)))
    older = [type_ for type_ in unknown if newest.get(_parted(type_)[0], 0) > _parted(type_)[1]]
    if older:
        return f"this copy is older than its factory, which no longer speaks {', '.join(older)}: update it"
    if not known:
        return "the factory is older than this copy and does not say which facts it speaks: update the factory first"
    return f"this copy is newer than its factory, which does not speak {', '.join(unknown)}: update the factory first"


def _parted(type_: str) -> tuple[str, int]:
    """`candidate.compiled.v1` as its name and its version."""
    name, _, version = type_.rpartition(".v")
    return name, int(version)
