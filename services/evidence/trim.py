"""How much of the fact stream may go: what is recorded, attested outside the database, and of no unfinished goal."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from schemas.events import GoalAccepted
from services.evidence.checkpoints import Checkpoint, Found, objection
from services.evidence.log import Head, Log
from services.evidence.view_fold import unfinished_goals
from services.runtime.bus import StreamState


@dataclass(frozen=True)
class Trim:
    """Messages of the stream up to `upto_seq` may go; `held_by` says what keeps the next one."""

    upto_seq: int
    held_by: str


@dataclass(frozen=True)
class _Limit:
    seq: int
    reason: str


async def trimmable(log: Log, stream: StreamState, found: Iterable[Found], bootstrap_keys: frozenset[str]) -> Trim:
    """What may go of `stream`. Nothing does while the log follows another epoch."""
    head = await log.head()
    if head.epoch != stream.epoch:
        return Trim(0, f"the log follows epoch {head.epoch or 'none'} and the stream is {stream.epoch}")
    limits = [
        _Limit(head.stream_seq, "what comes next is not recorded yet"),
        await _attested(log, head, found, bootstrap_keys),
        *[limit async for limit in _needed(log, head)],
    ]
    least = min(limits, key=lambda limit: limit.seq)
    return Trim(max(0, least.seq), least.reason)


async def _attested(log: Log, head: Head, found: Iterable[Found], bootstrap_keys: frozenset[str]) -> _Limit:
    """The latest checkpoint that is true of this log: signed by its librarian, its hash the row's own."""
    origin = await log.origin()
    ours = [one.checkpoint for one in found if one.checkpoint.origin == origin]
    for checkpoint in sorted(ours, key=lambda one: -one.position):
        if await _agrees(log, head, checkpoint, bootstrap_keys):
            return _Limit(
                checkpoint.stream_seq, f"the last checkpoint that agrees is of position {checkpoint.position}"
            )
    return _Limit(0, "no checkpoint outside the database covers it")


async def _agrees(log: Log, head: Head, checkpoint: Checkpoint, bootstrap_keys: frozenset[str]) -> bool:
    if checkpoint.epoch != head.epoch or checkpoint.stream_seq > head.stream_seq:
        return False
    if objection(checkpoint, bootstrap_keys) is not None:
        return False
    async for row in log.rows(checkpoint.position - 1, checkpoint.position):
        return row.hash == checkpoint.chain
    return False


async def _needed(log: Log, head: Head) -> AsyncIterator[_Limit]:
    """Unfinished goals keep everything since they were accepted; all of this epoch when that was in another."""
    for goal_id in await unfinished_goals(log, head.position):
        async for accepted in log.read(0, head.position, goal_id, (GoalAccepted,)):
            async for row in log.rows(accepted.position - 1, accepted.position):
                first = row.stream_seq if row.epoch == head.epoch else 0
                yield _Limit(first - 1, f"goal {goal_id} is unfinished")
            break
