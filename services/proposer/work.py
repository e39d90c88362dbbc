"""The proposer's one effect: read the brief, think, hand back the thoughts."""

import asyncio
from collections.abc import Callable
from importlib import import_module
from typing import assert_never

from kernel_lab.spaces import SPACES
from schemas.faults import Misconfigured
from services.evidence.brief import BriefReader
from services.evidence.log import Log
from services.evidence.postgres_log import Role, connect_log
from services.proposer.core import Nominate, Nominated, Propose, ProposerOutcome, ProposerWork
from services.proposer.portfolio import propose
from services.proposer.terrain import Spaces, merged
from services.runtime.settings import Settings


class Thinker:
    """Performs proposer work over a log. Keeps the folds of goals it has seen, so that each brief costs what is new."""

    def __init__(self, log: Log, spaces: Spaces) -> None:
        self._reader = BriefReader(log)
        self._spaces = spaces

    async def perform(self, work: ProposerWork) -> ProposerOutcome:
        """The outcome of `work`. Raises Transient while the log is away or not yet at the due's position."""
        match work:
            case Propose(due=due):
                return propose(await self._reader.brief(due), self._spaces)
            case Nominate(due=due):
                return Nominated(await self._reader.nominees(due))
            case _:
                assert_never(work)


def open_effect(settings: Settings) -> Callable[[ProposerWork], ProposerOutcome]:
    """Proposer work can be performed: the log is open for reading, the spaces are loaded."""
    spaces = load_spaces(settings.extra_spaces)
    if settings.postgres_dsn is None:
        raise Misconfigured("the proposer reads the log: set ASSAY_POSTGRES_DSN")
    runner = asyncio.Runner()
    thinker = Thinker(runner.run(connect_log(settings.postgres_dsn, Role.READER)), spaces)
    return lambda work: runner.run(thinker.perform(work))


def load_spaces(extra: tuple[str, ...]) -> Spaces:
    """Assay's design spaces joined by the operator's own. Raises Misconfigured, naming the module that is wrong."""
    return merged([SPACES, *(_spaces_of(name) for name in extra)])


def _spaces_of(module_name: str) -> Spaces:
    try:
        spaces: Spaces | None = getattr(import_module(module_name), "SPACES", None)
    except ImportError as error:
        raise Misconfigured(f"ASSAY_EXTRA_SPACES: {module_name} cannot be imported: {error}") from error
    if spaces is None:
        raise Misconfigured(f"ASSAY_EXTRA_SPACES: {module_name} defines no SPACES")
    return spaces
