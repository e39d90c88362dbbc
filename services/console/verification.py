"""What `events verify` and the demo say of the log."""

from typing import Any

from services.evidence.verify import Verification


def verification_record(done: Verification) -> dict[str, Any]:
    """As JSON."""
    found = done.first_break
    return {
        "intact": done.holds,
        "origin": done.origin,
        "partial": done.is_partial,
        "events": done.rows,
        "goals": done.goals,
        "candidates": done.candidates,
        "unparseable": done.unparseable,
        "duplicates": done.duplicates,
        "divergent_duplicates": done.divergent,
        "late": done.late,
        "left_out": done.left_out,
        "imported": done.foreign,
        "signed": done.signed,
        "unsigned": done.unsigned,
        "bootstrap_keys": list(done.bootstrap_keys),
        "checkpoints": done.checkpoints,
        "head": {"position": done.head.position, "hash": done.head.hash.hex()},
        "first_break": {"position": found.position, "kind": found.kind, "message": found.message} if found else None,
    }


def verification_text(done: Verification) -> str:
    """In a few words, for people."""
    if done.first_break is not None:
        return f"BROKEN at position {done.first_break.position} ({done.first_break.kind}): {done.first_break.message}"
    what = f"a partial copy of log {done.origin}, {done.left_out} facts left out," if done.is_partial else "the log"
    return (
        f"{what} is whole and untouched: {done.rows} facts in an unbroken chain, {done.goals} goals, "
        f"{done.candidates} candidates, {done.divergent} divergent duplicates; head {done.head.hash.hex()[:16]}"
        f"\n{_provenance(done)}"
    )


def _provenance(done: Verification) -> str:
    names = " and ".join(done.bootstrap_keys)
    key = f"under bootstrap key {names}" if names else "no key certified"
    agreeing = f"{done.checkpoints} checkpoints agree" if done.checkpoints else "no checkpoint to compare with"
    return f"{done.signed} facts signed, {done.unsigned} unsigned, {key}; {agreeing}"
