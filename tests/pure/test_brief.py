"""The brief: the log up to exactly P, and what earlier goals left."""

import pytest

from schemas.enums import Target
from schemas.faults import Transient
from schemas.goal import Tolerance
from services.evidence.brief import BriefReader, read_brief, read_nominees
from services.evidence.earlier_goals import shape_distance
from tests.search_story import MACHINE, Story, goal, kernel, shape, task


async def test_a_brief_is_the_log_up_to_exactly_its_position() -> None:
    story = Story()
    story.accepted()
    story.measured(story.proposed("before"), 1.1)
    due = story.generation_due(1).fact
    story.measured(story.proposed("after"), 1.9)
    brief = await read_brief(await story.in_memory(), due)
    assert [tried.fingerprint for tried in brief.tried] == ["before"]
    assert brief.known == {"before"}
    assert brief.best is not None
    assert brief.best.search_ratio == 1.1


async def test_a_continued_brief_equals_one_folded_from_nothing() -> None:
    story = Story()
    story.accepted()
    dues = []
    for number in range(4):
        dues.append(story.generation_due(number).fact)
        for member in range(3):
            id_ = story.proposed(f"{number}.{member}", island=member % 2, generation=number)
            story.measured(id_, 1 + 0.1 * ((number * 7 + member * 3) % 5))
        story.generation_closed(number)
    log = await story.in_memory()
    reader = BriefReader(log)
    for due in dues:
        assert await reader.brief(due) == await read_brief(log, due)


async def test_a_redelivered_earlier_generation_gets_its_own_earlier_brief() -> None:
    story = Story()
    story.accepted()
    early = story.generation_due(0).fact
    story.proposed("a")
    late = story.generation_due(1).fact
    reader = BriefReader(await story.in_memory())
    await reader.brief(late)
    assert (await reader.brief(early)).tried == ()


async def test_a_brief_waits_for_the_log_to_reach_its_position() -> None:
    story = Story()
    story.accepted()
    due = story.generation_due(0).fact.model_copy(update={"position": 99})
    with pytest.raises(Transient, match="99"):
        await read_brief(await story.in_memory(), due)


async def test_proven_kernels_of_earlier_goals_come_nearest_first() -> None:
    story = Story()
    earlier = story.of_goal("g0")
    earlier.accepted()
    elsewhere = MACHINE.model_copy(update={"route": "cpu_ffffffff"})
    far = earlier.proposed("far")
    earlier.proven(far, of_task=task("g0", shapes=(shape(T=4096, H=1024),)))
    foreign = earlier.proposed("foreign")
    earlier.proven(foreign, of_task=task("g0", machine=elsewhere))
    near = earlier.proposed("near")
    earlier.proven(near)
    story.accepted()
    due = story.generation_due(0).fact
    brief = await read_brief(await story.in_memory(), due)
    assert [warm.kernel.fingerprint for warm in brief.warm] == ["near", "far", "foreign"]


async def test_a_champion_that_was_proven_first_is_one_warm_start() -> None:
    story = Story()
    earlier = story.of_goal("g0")
    earlier.accepted()
    winner = earlier.proposed("winner")
    earlier.proven(winner)
    earlier.crowned(winner)
    story.accepted()
    due = story.generation_due(0).fact
    brief = await read_brief(await story.in_memory(), due)
    assert [(warm.kernel.fingerprint, warm.crowned) for warm in brief.warm] == [("winner", True)]


async def test_kernels_of_another_operation_are_no_warm_start() -> None:
    story = Story()
    earlier = story.of_goal("g0")
    earlier.accepted(goal(workload="softmax"))
    earlier.proven(earlier.proposed("softmax"))
    story.accepted()
    due = story.generation_due(0).fact
    assert (await read_brief(await story.in_memory(), due)).warm == ()


async def test_what_the_same_ladder_and_bound_rejected_before_is_known() -> None:
    story = Story()
    strict, loose = story.of_goal("strict"), story.of_goal("loose")
    strict.accepted()
    loose.accepted(goal(tolerance=Tolerance(scale=4.0, allow_looser=True)))
    strict.rejected(strict.proposed("wrong"))
    strict.rejected(strict.proposed("uncompilable"), ladder=None)
    loose.rejected(loose.proposed("wrong under another bound"))
    story.accepted()
    due = story.generation_due(0).fact
    assert (await read_brief(await story.in_memory(), due)).known == {"wrong"}


async def test_a_newer_ladder_judges_again_what_an_older_one_rejected() -> None:
    story = Story()
    earlier = story.of_goal("g0")
    earlier.accepted()
    earlier.rejected(earlier.proposed("wrong then"), ladder="ladder-1")
    earlier.rejected(earlier.proposed("wrong now"), ladder="ladder-2")
    story.accepted()
    due = story.generation_due(0).fact
    assert (await read_brief(await story.in_memory(), due)).known == {"wrong now"}


async def test_the_ladder_of_another_target_changes_no_rejection() -> None:
    story = Story()
    earlier, pretence = story.of_goal("g0"), story.of_goal("null")
    earlier.accepted()
    earlier.rejected(earlier.proposed("wrong"), ladder="ladder-1")
    pretence.accepted(goal(target=Target.NULL))
    pretence.proven(pretence.proposed("null"), ladder="null")
    story.accepted()
    due = story.generation_due(0).fact
    assert "wrong" in (await read_brief(await story.in_memory(), due)).known


async def test_a_proof_by_a_newer_ladder_reopens_what_the_older_one_rejected() -> None:
    story = Story()
    earlier = story.of_goal("g0")
    earlier.accepted()
    earlier.rejected(earlier.proposed("wrong then"), ladder="ladder-1")
    earlier.proven(earlier.proposed("right"), ladder="ladder-2")
    story.accepted()
    due = story.generation_due(0).fact
    assert (await read_brief(await story.in_memory(), due)).known == frozenset()


async def test_finalists_are_the_best_and_no_two_are_the_same_object() -> None:
    story = Story()
    story.accepted()
    for fingerprint, ratio, digest in (("a", 1.1, "x"), ("b", 1.4, "y"), ("c", 1.3, "y"), ("d", 1.2, "z")):
        story.measured(story.proposed(fingerprint), ratio, digest=digest)
    due = story.finals_due(finalists=3).fact
    nominees = await read_nominees(await story.in_memory(), due)
    assert [nominee.build.kernel.fingerprint for nominee in nominees] == ["b", "d", "a"]
    assert [nominee.search_ratio for nominee in nominees] == [1.4, 1.2, 1.1]


async def test_a_rejected_finalist_is_not_nominated_again_nor_is_another_of_the_same_object() -> None:
    story = Story()
    story.accepted()
    ids = {}
    for fingerprint, ratio, digest in (("a", 1.4, "x"), ("b", 1.3, "y"), ("c", 1.2, "x"), ("d", 1.1, "z")):
        ids[fingerprint] = story.proposed(fingerprint)
        story.measured(ids[fingerprint], ratio, digest=digest)
    story.finals_due(finalists=1)
    story.refuted(ids["a"])
    due = story.finals_due(finalists=2, attempt=1).fact
    nominees = await read_nominees(await story.in_memory(), due)
    assert [nominee.build.kernel.fingerprint for nominee in nominees] == ["b", "d"]


async def test_the_last_generation_before_finals_is_foreseen() -> None:
    story = Story()
    story.accepted(goal(budget={"candidates": 10, "wall": 60.0, "stagnation": 3}))
    first = story.generation_due(0, size=8).fact
    for number in range(8):
        story.proposed(f"k{number}")
    second = story.generation_due(1, size=2).fact
    log = await story.in_memory()
    assert not (await read_brief(log, first)).last_before_finals
    assert (await read_brief(log, second)).last_before_finals


def test_shapes_are_near_by_doublings() -> None:
    here = ({"T": 15, "H": 1023},)
    assert shape_distance(here, here) == 0
    assert shape_distance(({"T": 31, "H": 1023},), here) == 1
    assert shape_distance(({"N": 5},), here) == float("inf")


async def test_candidates_of_a_kernel_space_keep_their_genome() -> None:
    story = Story()
    story.accepted()
    story.proposed(kernel("k", {"variant": "two_pass", "unroll": 4}))
    due = story.generation_due(0).fact
    brief = await read_brief(await story.in_memory(), due)
    assert brief.tried[0].genome == {"variant": "two_pass", "unroll": 4}
