"""What people publish on the intake stream. The desk answers each with a fact (architecture.md, Requests and facts)."""

from pydantic import Field

from schemas.enums import SteerAction
from schemas.goal import Goal
from schemas.model import Model

INTAKE_PREFIX = "assay.intake"
GOAL_SUBMITTED = f"{INTAKE_PREFIX}.goal.submitted"
GOAL_STEERED = f"{INTAKE_PREFIX}.goal.steered"
MAX_REQUEST_BYTES = 512 * 1024


class SubmitGoal(Goal):
    """Body of `assay.intake.goal.submitted.<goal_id>`: the goal file as JSON."""


class SteerGoal(Model):
    """Body of `assay.intake.goal.steered.<goal_id>`."""

    action: SteerAction
    reason: str = Field(min_length=1, max_length=2000)
    nonce: str = Field(default="", max_length=64)
    """Any text. A request is known by its content, so a second pause needs another nonce (or reason) than the first."""
