"""The proposer's one effect: read the brief, think, hand back the thoughts."""

import asyncio
from collections.abc import Callable
from typing import assert_never

from kernel_lab.spaces.installed import Spaces, load_spaces
from schemas.faults import Misconfigured
from services.evidence.brief import BriefReader
from services.evidence.log import Log
from services.evidence.postgres_log import Role, connect_log
from services.proposer.core import Nominate, Nominated, Propose, ProposerOutcome, ProposerWork
from services.proposer.portfolio import propose
from services.proposer.strategies import STRATEGIES
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
    _require_strategies(settings.strategies)
    spaces = load_spaces(settings.extra_spaces)
    if settings.postgres_dsn is None:
        raise Misconfigured("the proposer reads the log: set ASSAY_POSTGRES_DSN")
    runner = asyncio.Runner()
    thinker = Thinker(runner.run(connect_log(settings.postgres_dsn, Role.READER)), spaces)
    return lambda work: runner.run(thinker.perform(work))


def _require_strategies(offered: tuple[str, ...]) -> None:
    """Every strategy that this installation offers to goals is there. Raises Misconfigured."""
    missing = [name for name in offered if name not in STRATEGIES]
    if missing:
        raise Misconfigured(f"ASSAY_STRATEGIES: no strategy {', '.join(missing)}; there are {', '.join(STRATEGIES)}")
