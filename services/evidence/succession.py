"""Does each row follow from the one before it? Positions, the chain, and the stream's sequences."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from schemas.events import EpochOpened
from services.evidence.breaks import Break, BreakKind
from services.evidence.chain import GENESIS, link
from services.evidence.log import Duplicate, Head, LeftOut, Row

NO_EPOCHS: Mapping[str, EpochOpened] = MappingProxyType({})


class Succession:
    """Where a walk over a log stands. Flat, but for the duplicates' sequences, which are rare."""

    def __init__(self, duplicates: Iterable[Duplicate], opened: Mapping[str, EpochOpened] = NO_EPOCHS) -> None:
        self.position, self.hash = 0, GENESIS
        self._opened = opened
        self.left_out = 0
        self._repeated = {(one.epoch, one.stream_seq) for one in duplicates}
        self._epoch, self._seq, self._own_position = "", 0, 0

    def follows(self, row: Row) -> Break | None:
        """`row` is the next one, hashed over its predecessor, place, time and raw."""
        expected = self.position + 1
        if row.position != expected:
            return Break(expected, BreakKind.MISSING, f"row {expected} is not there; the next one is {row.position}")
        hashed = link(self.hash, row.position, row.origin, row.epoch, row.stream_seq, row.recorded_at, row.raw)
        if hashed == row.hash:
            return None
        message = "the hash does not follow from the row before it, its place, its time of recording and raw"
        return Break(row.position, BreakKind.DIGEST, message)

    def sequence(self, row: Row) -> Break | None:
        """Every message of the stream between the last own row and `row` is accounted for."""
        if row.stream_seq == self._seq + 1 and row.epoch == self._epoch and not self._repeated:
            return None
        if self._epoch not in ("", row.epoch) and (wrong := self._change(row.epoch, row.position - 1)):
            return Break(row.position, BreakKind.SEQUENCE, wrong)
        if row.stream_seq <= self._seq:
            message = f"stream sequence {row.stream_seq} follows {self._seq}"
            return Break(row.position, BreakKind.SEQUENCE, message)
        if (row.epoch, row.stream_seq) in self._repeated:
            message = f"stream sequence {row.stream_seq} is a row and a duplicate"
            return Break(row.position, BreakKind.SEQUENCE, message)
        missing = self._unaccounted(row.epoch, row.stream_seq)
        if missing is None:
            return None
        return Break(row.position, BreakKind.SEQUENCE, f"stream sequence {missing} is neither a row nor a duplicate")

    def _change(self, epoch: str, position: int) -> str | None:
        """The stream goes on as `epoch` after `position`; what is wrong when no fact opened it there."""
        opened = self._opened.get(epoch)
        if opened is None:
            return f"epoch {epoch} follows {self._epoch}, and no fact opened it"
        if opened.previous_epoch != self._epoch or not self._own_position <= opened.position <= position:
            there = f"{opened.previous_epoch} at {opened.position}"
            return f"epoch {epoch} follows {self._epoch} here, and it was opened after {there}"
        missing = self._unaccounted(self._epoch, opened.previous_seq + 1)
        if missing is not None:
            return f"stream sequence {missing} of epoch {self._epoch} is neither a row nor a duplicate"
        self._epoch, self._seq = epoch, opened.first_seq - 1
        return None

    def step(self, row: Row, *, own: bool) -> None:
        """`row` holds: it is what the next one is judged against."""
        self.position, self.hash = row.position, row.hash
        if own:
            self._epoch, self._seq, self._own_position = row.epoch, row.stream_seq, row.position

    def skip(self, left: LeftOut) -> Break | None:
        """Rows are left out here, and the chain goes on after them."""
        expected = self.position + 1
        if left.first != expected or left.last < left.first:
            message = f"rows {left.first} to {left.last} are said to be left out, after row {self.position}"
            return Break(expected, BreakKind.MISSING, message)
        self.position, self.hash = left.last, left.hash
        self.left_out += left.last - left.first + 1
        return None

    def end(self, head: Head) -> Break | None:
        """The head is where the rows ended."""
        if self.position != head.position:
            missing = self.position + 1
            return Break(missing, BreakKind.MISSING, f"the head is at {head.position} and row {missing} is not there")
        if self.hash != head.hash:
            return Break(head.position, BreakKind.HEAD, "the head's hash is not the last row's")
        if self.left_out:
            return None
        if self._epoch not in ("", head.epoch) and (wrong := self._change(head.epoch, head.position)):
            return Break(head.position, BreakKind.HEAD, f"the head says: {wrong}")
        unaccounted = self._unaccounted(head.epoch, head.stream_seq + 1)
        if unaccounted is None and self._seq <= head.stream_seq:
            return None
        message = f"the head is at stream sequence {head.stream_seq} and {unaccounted or self._seq} does not fit"
        return Break(head.position, BreakKind.SEQUENCE, message)

    def _unaccounted(self, epoch: str, before: int) -> int | None:
        """The first sequence after the last own row and under `before` that no duplicate accounts for."""
        if self.left_out:
            return None
        return next((seq for seq in range(self._seq + 1, before) if (epoch, seq) not in self._repeated), None)
