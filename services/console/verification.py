"""What `events verify` and the demo say of the log."""

from typing import Any

from services.evidence.verify import Verification


def verification_record(done: Verification) -> dict[str, Any]:
    """As JSON."""
    found = done.first_break
    return {
        "intact": done.holds,
        "events": done.rows,
        "goals": done.goals,
        "candidates": done.candidates,
        "unparseable": done.unparseable,
        "duplicates": done.duplicates,
        "divergent_duplicates": done.divergent,
        "late": done.late,
        "head": {"position": done.head.position, "hash": done.head.hash.hex()},
        "first_break": {"position": found.position, "kind": found.kind, "message": found.message} if found else None,
    }


def verification_text(done: Verification) -> str:
    """In one line, for people."""
    if done.first_break is not None:
        return f"BROKEN at position {done.first_break.position} ({done.first_break.kind}): {done.first_break.message}"
    return (
        f"the log is whole and untouched: {done.rows} facts in an unbroken chain, {done.goals} goals, "
        f"{done.candidates} candidates, {done.divergent} divergent duplicates; head {done.head.hash.hex()[:16]}"
    )
