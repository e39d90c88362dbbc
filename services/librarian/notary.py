"""The notary: what the log holds now is written down outside the database, signed."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import structlog

from schemas.faults import Transient
from services.evidence import checkpoints
from services.evidence.log import Log
from services.runtime.signing import ServiceKey

log = structlog.get_logger()


@dataclass
class Notary:
    """Writes a checkpoint at the start and end of a term, every `every_s` while the log grows, and when asked."""

    key: ServiceKey
    folder: Path
    every_s: float
    now: Callable[[], datetime]
    _attested: int = 0
    """The last position written down by this copy."""
    _asked: asyncio.Event = field(default_factory=asyncio.Event)

    def ask(self) -> None:
        """A checkpoint is written soon: something was recorded that must not be lost silently."""
        self._asked.set()

    async def keep(self, memory: Log) -> None:
        """Checkpoints are written for ever. A folder that cannot be written is reported and tried again."""
        while True:
            await self.attest(memory)
            try:
                async with asyncio.timeout(self.every_s):
                    await self._asked.wait()
            except TimeoutError:
                continue

    async def attest(self, memory: Log) -> None:
        """What the log holds now is written down, unless it was before. Never stops the recorder: a fault is logged."""
        self._asked.clear()
        try:
            head = await memory.head()
            if head.position > self._attested:
                made = checkpoints.make(self.key, await memory.origin(), head, self.now())
                path = await asyncio.to_thread(checkpoints.write, self.folder, made)
                self._attested = head.position
                log.info("checkpoint", position=head.position, path=str(path))
        except Transient as fault:
            log.error("no checkpoint was written", reason=str(fault))  # noqa: TRY400 — the message is the explanation
