"""Liveness, goal marks and traces: what the host believes, with clocks and ids given."""

import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.envelope import answer
from schemas.events import BaselineDue, CandidateProposed, SearchExhausted
from schemas.faults import Misconfigured
from services.runtime.bus import GOALS_BUCKET
from services.runtime.goal_view import GoalStanding, GoalView
from services.runtime.health import STUCK_AFTER_S, Health, HealthServer, RunFile
from services.runtime.memory_bus import MemoryBus
from services.runtime.metrics import Metrics
from services.runtime.stating import Stamp
from services.runtime.telemetry import about
from tests.fixtures.toy_service import envelope, proposed, task

NOW = datetime(2026, 11, 30, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def status(port: int, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_a_loop_that_no_longer_ticks_is_dead_and_one_that_ticks_again_is_alive() -> None:
    clock = Clock()
    health = Health(lambda: True, clock)
    assert health.live()
    clock.now_s += STUCK_AFTER_S
    assert not health.live()
    health.tick()
    assert health.live()


def test_a_connection_closed_for_good_is_dead_however_well_the_loop_ticks() -> None:
    health = Health(lambda: False, Clock())
    health.tick()
    assert not health.live()


def test_the_endpoints_say_what_health_says_and_readiness_needs_life() -> None:
    clock = Clock()
    health = Health(lambda: True, clock)
    server = HealthServer("127.0.0.1", 0, Metrics("toy"), health)
    assert (status(server.port, "/livez"), status(server.port, "/readyz")) == (200, 503)
    health.ready = True
    assert status(server.port, "/readyz") == 200
    clock.now_s += STUCK_AFTER_S
    assert (status(server.port, "/livez"), status(server.port, "/readyz")) == (503, 503)
    server.close()


def test_a_metrics_port_that_is_taken_is_misconfigured() -> None:
    first = HealthServer("127.0.0.1", 0, Metrics("toy"), Health(lambda: True))
    with pytest.raises(Misconfigured, match="ASSAY_METRICS_PORT"):
        HealthServer("127.0.0.1", first.port, Metrics("toy"), Health(lambda: True))
    first.close()


def test_a_run_file_says_who_runs_until_it_is_removed(tmp_path: Path) -> None:
    file = RunFile(tmp_path / "run", "compiler", "c1", 4711)
    assert "4711" in (tmp_path / "run" / "compiler-c1.json").read_text()
    file.remove()
    assert list((tmp_path / "run").iterdir()) == []


async def goals() -> GoalView:
    return GoalView(await MemoryBus().bucket(GOALS_BUCKET))


async def test_a_goal_without_a_mark_and_one_with_an_unreadable_mark_mean_work() -> None:
    view = await goals()
    assert not await view.drops(envelope(proposed()))
    await view.bucket.put("g1", b"\xff not json")
    assert not await view.drops(envelope(proposed()))
    await view.advance("g1", GoalStanding.ENDED, 1)
    assert await view.drops(envelope(proposed()))


async def test_only_search_work_is_dropped_in_finals_and_everything_at_the_end() -> None:
    view = await goals()
    due = envelope(BaselineDue(goal_id="g1", position=1, attempt=0, champion=None, task=task()))
    await view.advance("g1", GoalStanding.FINALS, 1)
    assert (await view.drops(envelope(proposed())), await view.drops(due)) == (True, False)
    await view.advance("g1", GoalStanding.ENDED, 2)
    assert await view.drops(due)


@given(st.lists(st.tuples(st.sampled_from(GoalStanding), st.integers(1, 50)), min_size=1, max_size=12))
async def test_a_mark_only_ever_moves_to_a_higher_position(moves: list[tuple[GoalStanding, int]]) -> None:
    view = await goals()
    for state, position in moves:
        await view.advance("g1", state, position)
    mark = await view.mark("g1")
    assert mark is not None
    assert mark.position == max(position for _, position in moves)
    assert mark.state == next(state for state, position in moves if position == mark.position)


def test_what_is_stated_carries_source_time_cause_root_and_trace() -> None:
    stamp = Stamp("assay/toy/c1", lambda: NOW, lambda n: "d" * 2 * n)
    cause = envelope(proposed())
    stated = stamp.answering(answer(cause, "x", SearchExhausted(goal_id="g1", generation=0, message="")), cause)
    assert (stated.source, stated.time, stated.causation_id) == ("assay/toy/c1", NOW, cause.id)
    assert stated.correlation_id == UUID(int=7)
    assert stated.traceparent == f"00-{'a' * 32}-{'d' * 16}-01"


@pytest.mark.parametrize("broken", [None, "", "00-short-span-01", "nonsense"])
def test_a_missing_or_broken_trace_begins_a_new_one(broken: str | None) -> None:
    stamp = Stamp("assay/toy/c1", lambda: NOW, lambda n: "d" * 2 * n)
    cause = envelope(proposed())
    draft = answer(cause, "x", SearchExhausted(goal_id="g1", generation=0, message=""))
    assert stamp.stating(draft, None, broken).traceparent == f"00-{'d' * 32}-{'d' * 16}-01"


def test_a_log_line_names_the_candidate_that_a_proposal_is() -> None:
    cause = envelope(proposed())
    assert isinstance(cause.fact, CandidateProposed)
    assert about(cause)["candidate"] == str(cause.id)
