"""The audit of decisions: one walk over the log, two audits beside each other."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from kernel_lab.spaces.installed import Spaces
from schemas.ids import GoalId
from services.console.replaying.curator_audit import CURATED, CuratorAudit
from services.console.replaying.findings import Finding
from services.console.replaying.proposer_audit import PROPOSED, ProposerAudit
from services.evidence.log import Log
from services.evidence.past import Progress, unreadable
from services.proposer.work import Thinker

DECIDED = frozenset((*CURATED, *PROPOSED))
STEP = 200
"""Facts between two words of progress. Chosen."""


@dataclass(frozen=True)
class Audited:
    """What was recomputed up to `position`, by type, and what does not follow from the log."""

    position: int
    recomputed: Mapping[str, int]
    findings: tuple[Finding, ...]
    unreadable: Mapping[str, int]
    """Rows that no decision could rest on here, by type."""


async def audit_decisions(
    log: Log, spaces: Spaces, position: int, goal_id: GoalId | None, progress: Progress
) -> Audited:
    """Every decision of curator and proposer up to `position`, taken again. With `goal_id` only that goal's."""
    curator_audit, proposer_audit = CuratorAudit(), ProposerAudit(Thinker(log, spaces))
    recomputed: Counter[str] = Counter()
    findings: list[Finding] = []
    async for recorded in log.read(0, position):
        if recorded.position % STEP == 0:
            progress(recorded.position, position)
        wrong = curator_audit.follow(recorded)
        if goal_id not in (None, recorded.fact.about_goal):
            continue
        if type(recorded.fact) in DECIDED:
            recomputed[recorded.fact.TYPE] += 1
        findings += [wrong] if wrong else []
        findings += await proposer_audit.follow(recorded)
    return Audited(position, dict(recomputed), tuple(findings), await unreadable(log, position))
