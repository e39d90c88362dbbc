"""Structured logs: one JSON object a line on stderr, with goal, candidate, cause and event where they are known."""

import logging
import sys
from typing import Any

import structlog

from schemas.envelope import Envelope
from schemas.events import CandidateProposed, Fact


def start_logging(service: str, copy: str, level: str = "info") -> None:
    """Every log line of this process is JSON on stderr and names the service and its copy."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.EventRenamer("message", replace_by="event_id"),
            structlog.processors.JSONRenderer(default=str),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    structlog.contextvars.bind_contextvars(service=service, copy=copy)


def about(cause: Envelope[Fact]) -> dict[str, Any]:
    """What a log line about `cause` says of it."""
    candidate = cause.id if isinstance(cause.fact, CandidateProposed) else getattr(cause.fact, "candidate_id", None)
    found = {
        "goal": cause.goal_id,
        "candidate": candidate and str(candidate),
        "cause": cause.causation_id and str(cause.causation_id),
        "event_id": str(cause.id),  # written as `event`, a name that structlog keeps for the message
        "type": cause.fact.TYPE,
        "traceparent": cause.traceparent,
    }
    return {name: value for name, value in found.items() if value is not None}
