"""The whole of what a database holds: its own log, and every log that was imported, each as it stood where it began."""

from dataclasses import dataclass, replace

from services.evidence.breaks import Break, BreakKind
from services.evidence.foreign_log import ForeignLog
from services.evidence.postgres_log import PostgresLog
from services.evidence.verify import NOTHING_BROUGHT, Progress, Trust, Verification, unwatched, verify


@dataclass(frozen=True)
class Audit:
    """What was found."""

    own: Verification
    copies: tuple[Verification, ...]

    @property
    def verifications(self) -> tuple[Verification, ...]:
        return self.own, *self.copies

    @property
    def holds(self) -> bool:
        return all(one.holds for one in self.verifications)


async def audit(home: PostgresLog, progress: Progress = unwatched, trust: Trust = NOTHING_BROUGHT) -> Audit:
    """`home` and every copy in it were verified, each up to its end or its first break.

    The auditor's bootstrap key is that of `home`. A copy is judged by the key that it names itself: to bring another
    one along, verify that copy alone.
    """
    own = await verify(home, progress, trust)
    copies = [
        await verify(ForeignLog(home, imported), progress, _trust_in(trust, imported.origin))
        for imported in await home.imports()
    ]
    return Audit(_accounted(own, sum(copy.rows for copy in copies)), tuple(copies))


def _trust_in(trust: Trust, origin: str) -> Trust:
    about = tuple(one for one in trust.checkpoints if one.checkpoint.origin == origin)
    return Trust(frozenset(), about, trust.chain_only)


def _accounted(own: Verification, copied: int) -> Verification:
    """Rows of other logs are all part of a copy. (More copies than rows: an import went on meanwhile.)"""
    if own.first_break or own.foreign <= copied:
        return own
    message = f"{own.foreign} rows are of other logs, and imports account for {copied}"
    return replace(own, first_break=Break(own.head.position, BreakKind.ORIGIN, message))
