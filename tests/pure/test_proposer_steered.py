"""What proposers make of hints, bans, pins and kernels from outside."""

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from kernel_lab.spaces.fingerprint import fingerprint
from kernel_lab.spaces.launch import parse_launch
from schemas.enums import SteerAction
from schemas.events import FinalsDue, GenerationDue, GoalSteered
from schemas.goal import SpaceLimits
from schemas.requests import RawRequest
from schemas.steering import Ban, Extension, Hint
from schemas.work import Genome, Kernel
from services.evidence.brief import Brief, Nominee, read_brief, read_nominees
from services.evidence.search_history import Tried
from services.proposer.adoption import adopted, relaunches
from services.proposer.portfolio import HINT_SHARE, RELAUNCH, Proposed, propose
from tests.search_spaces import LARGE, MACHINE, SMALL, brief, spaces, terrain, tried
from tests.search_story import Story, goal, kernel

REQUEST = RawRequest(subject="s", sha256="0", size=0, body="", encoding="utf-8")
PLACE = terrain(LARGE)
BUDGET = {"budget": {"candidates": 64, "wall": 60.0, "stagnation": 9}}


def proposals(of: Brief, space: Any = LARGE) -> Proposed:
    found = propose(of, spaces(space))
    assert isinstance(found, Proposed)
    return found


def genomes(of: Brief, space: Any = LARGE) -> list[Genome]:
    return [one.kernel.genome for one in proposals(of, space).proposals]


def submission(source: str, ratio: float | None = 1.5, threads: int | None = None) -> Tried:
    """A kernel from outside that was measured."""
    mark = fingerprint(source, (), threads, MACHINE.route)
    made = kernel(mark, source=source).model_copy(update={"threads": threads})
    made = Kernel.model_validate(made.model_dump())
    settled = tried(PLACE, PLACE.points[0], ratio)
    return replace(settled, id=UUID(int=77), genome={}, fingerprint=mark, submitted=made)


# ---- hints ---------------------------------------------------------------------------------------------------------


def test_half_of_a_generation_goes_where_the_hint_points() -> None:
    hint = Hint(text="small and wide", include={"vector_bits": (512,), "unroll": (32,)})
    inside = [g for g in genomes(brief(hint=hint)) if (g["vector_bits"], g["unroll"]) == (512, 32)]
    assert len(inside) >= 16 * HINT_SHARE
    assert len(inside) < 16, "the rest looks elsewhere"
    without = [g for g in genomes(brief()) if (g["vector_bits"], g["unroll"]) == (512, 32)]
    assert len(without) < 16 * HINT_SHARE


def test_a_hint_in_words_changes_no_proposal() -> None:
    assert proposals(brief(hint=Hint(text="be bold"))) == proposals(brief())


def test_a_hint_at_nothing_leaves_a_whole_generation() -> None:
    hint = Hint(include={"unroll": (1,), "vector_bits": (512,)})  # wide vectors need unrolling
    assert len(genomes(brief(hint=hint))) == 16


def test_a_hint_never_leaves_what_the_goal_allows() -> None:
    narrow = goal(search={"space": {"include": {"unroll": (1, 2)}}})
    found = genomes(brief(of=narrow, hint=Hint(include={"unroll": (2, 4)})))
    assert {g["unroll"] for g in found} <= {1, 2}


# ---- bans ----------------------------------------------------------------------------------------------------------


def test_a_banned_value_is_never_proposed_again() -> None:
    best = tried(PLACE, next(g for g in PLACE.points if g["streaming"] is True), 2.0)
    found = genomes(brief([best], bans=(Ban(tunable="streaming", value=True),)))
    assert found
    assert not any(g["streaming"] for g in found)


def test_a_banned_kernel_is_never_proposed_again() -> None:
    every = {terrain(SMALL).kernel(g).fingerprint for g in terrain(SMALL).points}
    banned = min(every)
    told = brief(size=64, of=goal(**BUDGET), known=frozenset({banned}))
    assert {one.kernel.fingerprint for one in proposals(told, SMALL).proposals} == every - {banned}


async def test_the_brief_knows_hints_bans_and_the_extended_budget_up_to_its_position() -> None:
    story = Story()
    story.accepted(goal(**BUDGET))
    early = story.generation_due(0)
    ban = Ban(fingerprint="a" * 64)
    for action, detail in (
        (SteerAction.EXTEND, {"extend": Extension(candidates=36)}),
        (SteerAction.HINT, {"hint": Hint(text="first")}),
        (SteerAction.HINT, {"hint": Hint(text="second")}),
        (SteerAction.BAN, {"ban": ban}),
        (SteerAction.BAN, {"ban": Ban(tunable="unroll", value=4)}),
    ):
        story.say(GoalSteered(goal_id="g1", action=action, reason="r", request=REQUEST, **detail))
    late = story.generation_due(1)
    log = await story.in_memory()
    before, after = await read_brief(log, _due(early)), await read_brief(log, _due(late))
    assert (before.hint, before.bans, before.goal.budget.candidates) == (None, (), 64)
    assert after.hint == Hint(text="second")
    assert after.goal.budget.candidates == 100
    assert ban.fingerprint in after.known
    assert after.limits == SpaceLimits(exclude={"unroll": (4,)})


# ---- pins ----------------------------------------------------------------------------------------------------------


async def nominated(*steers: tuple[SteerAction, dict[str, Any]]) -> tuple[Nominee, ...]:
    """The two finalists of a story with ratios 1.1, 1.2, 1.3 and 1.4 for kernels k0 to k3."""
    story = Story()
    story.accepted()
    story.generation_due()
    for number in range(4):
        made = kernel(f"{number}" * 64, {"unroll": number})
        story.measured(story.proposed(made), 1.1 + number / 10)
    ids = [r.id for r in story.log if r.fact.TYPE == "candidate.proposed.v1"]
    for action, detail in steers:
        known: dict[str, Any] = {
            name: ids[value] if isinstance(value, int) else value for name, value in detail.items()
        }
        story.say(GoalSteered(goal_id="g1", action=action, reason="r", request=REQUEST, **known))
    finals = story.finals_due(finalists=2)
    assert isinstance(finals.fact, FinalsDue)
    return await read_nominees(await story.in_memory(), finals.fact)


def ratios(nominees: tuple[Nominee, ...]) -> list[float]:
    return [round(one.search_ratio, 1) for one in nominees]


async def test_a_pinned_candidate_is_nominated_whatever_its_rank() -> None:
    assert ratios(await nominated()) == [1.4, 1.3]
    assert ratios(await nominated((SteerAction.PIN, {"pin": 0}))) == [1.4, 1.1]


async def test_what_is_banned_is_not_nominated_unless_it_is_pinned() -> None:
    kernel_banned = (SteerAction.BAN, {"ban": Ban(fingerprint="3" * 64)})
    value_banned = (SteerAction.BAN, {"ban": Ban(tunable="unroll", value=2)})
    assert ratios(await nominated(kernel_banned, value_banned)) == [1.2, 1.1]
    assert ratios(await nominated(value_banned, (SteerAction.PIN, {"pin": 2}))) == [1.4, 1.3]


# ---- kernels from outside ------------------------------------------------------------------------------------------


def test_a_submission_that_is_a_point_of_the_space_is_a_parent_like_any_other() -> None:
    point = PLACE.points[123]
    same = PLACE.kernel(point)
    outside = submission(same.source, 3.0, same.threads)
    assert outside.fingerprint == same.fingerprint
    told = adopted(brief([outside]), [PLACE])
    assert told.best is not None
    assert (told.best.genome, told.tried[0].genome, told.elites[0][0].genome) == (point, point, point)
    children = [one for one in proposals(brief([outside], of=goal(**BUDGET))).proposals if one.parents == (outside.id,)]
    assert children
    assert all(child.kernel.genome for child in children)


def test_any_other_source_is_proposed_again_with_other_launch_data() -> None:
    outside = submission("// my own\nvoid rms_norm(void) { }")
    found = [one for one in proposals(brief([outside])).proposals if one.strategy == RELAUNCH]
    assert len(found) == 2, "an eighth of a generation of sixteen"
    for one in found:
        assert one.parents == (outside.id,)
        assert one.kernel.source.endswith("// my own\nvoid rms_norm(void) { }")
        stated = parse_launch(one.kernel.source)
        assert (stated.flags, stated.threads) == (one.kernel.flags, one.kernel.threads)  # type: ignore[union-attr]


def test_a_submission_that_was_not_measured_is_no_parent() -> None:
    found = proposals(brief([submission("void rms_norm(void) { }", None)])).proposals
    assert all(one.strategy != RELAUNCH for one in found)


def test_relaunches_differ_fit_the_goal_and_replace_the_first_line() -> None:
    line = json.dumps({"flags": ["-O2"], "threads": 1})
    own = submission(f"// assay: {line}\nvoid rms_norm(void) {{ }}", threads=1).submitted
    assert own is not None
    found = list(relaunches(own, PLACE))
    assert len({one.fingerprint for one in found}) == len(found)
    assert all((one.threads or 1) <= PLACE.around.threads for one in found)
    assert all(one.source.count("// assay:") == 1 for one in found)
    assert list(relaunches(own, PLACE)) == found


def test_a_relaunch_adds_to_the_flags_that_a_source_asks_for() -> None:
    own = submission("void rms_norm(void) { }").submitted
    assert own is not None
    wide = own.model_copy(update={"flags": ("-mprefer-vector-width=256", "-fno-math-errno")})
    flags = {one.flags for one in relaunches(wide, PLACE)}
    assert ("-fno-math-errno", "-mprefer-vector-width=512") in flags, "one width at a time"
    assert ("-mprefer-vector-width=256", "-fno-math-errno", "-funroll-loops") in flags
    assert () in flags


def test_polish_alone_searches_on_when_all_that_was_measured_came_from_outside() -> None:
    alone = goal(search={"strategies": ("polish",)}, **BUDGET)
    found = proposals(brief([submission("void rms_norm(void) { }")], of=alone)).proposals
    assert any(one.strategy == "polish" for one in found)


def test_submissions_spend_none_of_the_budget() -> None:
    outside = [submission(f"void rms_norm(void) {{ int n = {n}; }}") for n in range(60)]
    few = goal(budget={"candidates": 40, "wall": 60.0, "stagnation": 9})
    assert not brief(outside, of=few).last_before_finals
    assert brief(outside, of=few, size=40).last_before_finals


def _due(recorded: Any) -> GenerationDue:
    assert isinstance(recorded.fact, GenerationDue)
    return recorded.fact
