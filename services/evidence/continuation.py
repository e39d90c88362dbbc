"""May the log go on with the stream as it is? Each reason why not, and what a deliberate opening makes of it."""

from schemas.envelope import Draft
from schemas.events import EpochOpened
from schemas.ids import epoch_id
from services.evidence.log import Head
from services.runtime.bus import FACTS_STREAM, StreamState

OPEN_IT = "restore the old stream, or open the new epoch deliberately: `assay epoch open`"


def why_not(head: Head, stream: StreamState) -> str | None:
    """Why what follows `head` is not what the stream holds next; None when it is."""
    if head.epoch not in ("", stream.epoch):
        return f"{FACTS_STREAM} was recreated: it is epoch {stream.epoch} and the log follows {head.epoch}; {OPEN_IT}"
    if stream.last_seq < head.stream_seq:
        return (
            f"{FACTS_STREAM} ends at {stream.last_seq} and the log has recorded up to {head.stream_seq}: "
            f"the stream was restored from an older copy; {OPEN_IT}"
        )
    if stream.first_seq > head.stream_seq + 1:
        return (
            f"{FACTS_STREAM} begins at {stream.first_seq} and the log ends at {head.stream_seq}: "
            f"the messages between were removed before they were recorded; {OPEN_IT}"
        )
    return None


def may_open(head: Head, stream: StreamState) -> bool:
    """An operator said that this stream goes on where the log's epoch ended."""
    return head.epoch not in ("", stream.epoch) and stream.follows == head.epoch


def first_to_record(stream: StreamState) -> int:
    """Where a new epoch begins: with the oldest message that is still there, or the first that will come."""
    return max(1, stream.first_seq)


def opening(head: Head, stream: StreamState) -> Draft[EpochOpened]:
    """The fact that says so. Its id is the epoch's: however often it is stated, it is recorded once."""
    fact = EpochOpened(
        epoch=stream.epoch,
        first_seq=first_to_record(stream),
        position=head.position,
        previous_epoch=head.epoch,
        previous_seq=head.stream_seq,
        reason=stream.reason,
    )
    return Draft(epoch_id(stream.epoch), fact, None)
