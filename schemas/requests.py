"""What people publish on the intake stream. The desk answers each with a fact (architecture.md, Requests and facts)."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from schemas.enums import Language, SteerAction
from schemas.goal import Goal
from schemas.ids import Token
from schemas.model import Model
from schemas.steering import Ban, Extension, Hint

INTAKE_PREFIX = "assay.intake"
GOAL_SUBMITTED = f"{INTAKE_PREFIX}.goal.submitted"
GOAL_STEERED = f"{INTAKE_PREFIX}.goal.steered"
CANDIDATE_SUBMITTED = f"{INTAKE_PREFIX}.candidate.submitted"
COUNTEREXAMPLE_WITHDRAWN = f"{INTAKE_PREFIX}.counterexample.withdrawn"
MAX_REQUEST_BYTES = 512 * 1024


class SubmitGoal(Goal):
    """Body of `assay.intake.goal.submitted.<goal_id>`: the goal file as JSON."""


class SteerGoal(Model):
    """Body of `assay.intake.goal.steered.<goal_id>`. `extend`, `hint`, `pin`, `ban` and `confirm` need the field of
    their name."""

    action: SteerAction
    reason: str = Field(min_length=1, max_length=2000)
    nonce: str = Field(default="", max_length=64)
    """Any text. A request is known by its content, so a second pause needs another nonce (or reason) than the first."""
    extend: Extension | None = None
    hint: Hint | None = None
    pin: UUID | None = None
    """The id of a candidate of this goal that was measured."""
    ban: Ban | None = None
    confirm: UUID | None = None
    """The id of a raced candidate whose result is quarantined."""


class SubmitCandidate(Model):
    """Body of `assay.intake.candidate.submitted.<goal_id>`: one source file, judged like any proposal."""

    source: str
    """At most 256 KiB of UTF-8. Its first line may hold launch data (docs/workloads.md)."""
    language: Language | None = None
    """Unset means the first language of the goal."""
    workload: Token | None = None
    """What it computes, for those who want it compared with the goal's."""
    author: str = Field(default="", max_length=64, pattern=r"^[^\x00-\x1f\x7f]*$")
    """Kept in the evidence as a claim: nobody has signed it."""
    note: str = Field(default="", max_length=2000)
    nonce: str = Field(default="", max_length=64)
    """Any text: the same file sent again, after it was refused, needs another."""


class WithdrawCounterexample(Model):
    """Body of `assay.intake.counterexample.withdrawn.<id of its counterexample.kept>`."""

    reason: str = Field(min_length=1, max_length=2000)
    """Why it is no evidence: it outlives whoever withdrew it."""
    nonce: str = Field(default="", max_length=64)
    """Any text, as in a steer."""


class Problem(Model):
    """One thing wrong with a request."""

    path: str
    """JSON path, e.g. `$.budget.wall`."""
    message: str
    hint: str = ""


class RawRequest(Model):
    """A request exactly as it came, inside the fact that answers it."""

    subject: str
    sha256: str
    size: int
    body: str
    """UTF-8 when it is, else base64; cut at 64 KiB, which `encoding` says."""
    encoding: Literal["utf-8", "base64", "utf-8-cut", "base64-cut"]
    author: str = "unsigned"
