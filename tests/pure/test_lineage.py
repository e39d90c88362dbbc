"""Where candidates come from, how two differ, which one a name means, and what the log has taught."""

from typing import Any
from uuid import UUID

import pytest

from schemas.enums import Reason
from schemas.events import LessonRecorded
from schemas.faults import Misconfigured
from schemas.lesson import Lesson
from schemas.measurement import Interval
from schemas.work import Baseline, Kernel
from services.console.ancestry import Family, Relative, change_between, change_text, family_of
from services.console.commands.lessons import latest, lesson_record
from services.console.commands.lineage import Side, diff_record, lineage_record, with_source
from services.console.naming import candidate_named
from services.console.output import Column, Format, emit_page
from services.evidence.memory_log import MemoryLog
from tests.search_story import Story, build, kernel, shape, task


def tiled(name: str, tile: int, **changes: Any) -> Kernel:
    return kernel(name, {"variant": "two_pass", "tile": tile}, f"int tile = {tile};\n").model_copy(update=changes)


class Told:
    """Two roots; a child of each; a grandchild of both that is best; another child, rejected."""

    def __init__(self) -> None:
        self.story = Story()
        self.story.accepted()
        self.left = self.story.proposed(tiled("left", 16))
        self.right = self.story.proposed(tiled("right", 32, threads=2))
        self.child = self.story.proposed(tiled("child", 64), generation=1, parents=(self.left,))
        self.wrong = self.story.proposed(tiled("wrong", 8), generation=1, parents=(self.left,))
        self.best = self.story.proposed(tiled("best", 128), generation=2, parents=(self.child, self.right))
        for id_, ratio in ((self.left, 1.0), (self.right, 1.1), (self.child, 1.2), (self.best, 1.5)):
            self.story.measured(id_, ratio)
        self.story.rejected(self.wrong, Reason.OUT_OF_BOUND)

    async def log(self) -> MemoryLog:
        return await self.story.in_memory()

    async def family(self, of: UUID) -> Family:
        return await family_of(await self.log(), of)


def ids(line: tuple[Relative, ...]) -> list[UUID]:
    return [one.id for one in line]


async def test_ancestors_are_everyone_it_descends_from_oldest_first_and_itself_last() -> None:
    told = Told()
    found = ids((await told.family(told.best)).ancestors(told.best))
    assert set(found[:2]) == {told.left, told.right}
    assert found[2:] == [told.child, told.best]


async def test_the_way_to_the_best_goes_from_parent_to_child() -> None:
    told = Told()
    assert ids((await told.family(told.left)).to_best(told.left)) == [told.left, told.child, told.best]
    assert ids((await told.family(told.best)).to_best(told.best)) == [told.best]


async def test_one_without_a_measured_descendant_leads_to_itself() -> None:
    told = Told()
    assert ids((await told.family(told.wrong)).to_best(told.wrong)) == [told.wrong]


async def test_a_line_says_what_became_of_each_and_what_changed_from_its_parent() -> None:
    told = Told()
    family = await told.family(told.best)
    child, wrong, left = (lineage_record(family.members[id_], family) for id_ in (told.child, told.wrong, told.left))
    assert (child["status"], child["search_ratio"], child["change"]) == ("measured", 1.2, {"tile": [16, 64]})
    assert child["change_text"] == "tile 16 → 64"
    assert wrong["status"] == "rejected out_of_bound"
    assert left["change_text"] == "no parent"


async def test_forebears_of_an_earlier_goal_are_found_there() -> None:
    told = Told()
    later = told.story.of_goal("g2")
    later.accepted()
    heir = later.proposed(tiled("heir", 256), parents=(told.best,))
    found = (await family_of(await later.in_memory(), heir)).ancestors(heir)
    assert [one.goal_id for one in found] == ["g1"] * 4 + ["g2"]


async def test_a_parent_that_the_log_lacks_ends_the_line() -> None:
    story = Story()
    story.accepted()
    orphan = story.proposed("orphan", parents=(UUID(int=7),))
    assert ids((await family_of(await story.in_memory(), orphan)).ancestors(orphan)) == [orphan]


async def test_what_is_no_candidate_has_no_lineage() -> None:
    told = Told()
    for id_ in (UUID(int=7), told.story.log[0].id):
        with pytest.raises(Misconfigured, match="no candidate"):
            await told.family(id_)


def test_kernels_differ_in_genes_flags_and_threads() -> None:
    before, after = tiled("a", 16, threads=1), tiled("b", 16, threads=2, flags=("-O2",))
    assert change_text(change_between(before, after)) == "threads 1 → 2, flags  → -O2"
    assert change_between(before, before) == {}


def test_a_diff_holds_both_sides_and_knows_the_same_kernel() -> None:
    a, b = (Side(name, tiled(name, tile), {"candidate_id": name}) for name, tile in (("a", 16), ("b", 32)))
    record = diff_record(a, b)
    assert (record["same"], record["change_text"]) == (False, "tile 16 → 32")
    assert "-int tile = 16;\n+int tile = 32;" in record["diff"]
    assert diff_record(a, a) | {"a": 0, "b": 0} == {
        "a": 0, "b": 0, "same": True, "change": {}, "change_text": "", "diff": "",
    }  # fmt: skip


def test_the_baseline_to_compare_with_is_the_heaviest_shapes_that_has_a_source() -> None:
    small, large = {"T": 1, "H": 64}, {"T": 9, "H": 64}
    shapes = (shape(**small).model_copy(update={"weight": 3.0}), shape(**large))
    proposed = Told().story.log[1].fact.model_copy(update={"task": task(shapes=shapes)})
    numpy = Baseline(name="numpy", axes=small, median_ns=1.0)
    light, heavy = (
        Baseline(name=name, axes=axes, median_ns=1.0, artifact=build(kernel(name)))
        for name, axes in (("light", large), ("heavy", small))
    )
    assert [one.name for one in with_source((numpy, light, heavy), proposed)] == ["heavy", "light"]
    assert with_source((numpy,), proposed) == []


# ---- names -----------------------------------------------------------------------------------------------------------

ONE, OTHER = UUID("aaaa1111-0000-0000-0000-000000000001"), UUID("aaaa2222-0000-0000-0000-000000000002")


class Named:
    """Views that know two candidates and three goals."""

    async def candidates_named(self, digits: str, limit: int) -> tuple[dict[str, Any], ...]:
        return tuple({"candidate_id": id_} for id_ in (ONE, OTHER) if str(id_).startswith(digits))[:limit]

    async def goals(self, goal_id: str | None = None, limit: int = 1) -> tuple[dict[str, Any], ...]:
        known = {"won": (ONE, OTHER), "searching": (None, OTHER), "fresh": (None, None)}
        return ({"champion_id": known[goal_id][0], "best_candidate": known[goal_id][1]},) if goal_id in known else ()


@pytest.mark.parametrize(
    ("text", "meant"), [(str(ONE), ONE), ("aaaa1", ONE), ("AAAA2222", OTHER), ("won", ONE), ("searching", OTHER)]
)
async def test_a_candidate_is_named_by_id_by_first_digits_or_as_the_best_of_a_goal(text: str, meant: UUID) -> None:
    assert await candidate_named(Named(), text) == meant


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("aaaa", "several"),
        ("bbbb", "no candidate begins"),
        ("aa", "neither"),
        ("%", "neither"),
        ("fresh", "measured no"),
    ],
)
async def test_a_name_that_means_none_or_several_is_refused(text: str, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        await candidate_named(Named(), text)


# ---- lessons ---------------------------------------------------------------------------------------------------------


def taught(
    ratio: float | None, *, gene: str = "tile", workload: str = "rms_norm", machine: str = "cpu_1"
) -> LessonRecorded:
    effect = Interval(estimate=ratio, low=ratio * 0.9, high=ratio * 1.1, level=0.99) if ratio else None
    condition = {"machine": machine, "gene": gene, "value": "64"}
    said = Lesson(
        workload=workload, condition=condition, statement=f"{gene} {ratio}", effect=effect, count=9, failures={}
    )
    return LessonRecorded(goal_id="g1", generation=0, lesson=said, evidence=(ONE,))


def test_the_last_word_on_a_topic_counts_and_the_greatest_effect_comes_first() -> None:
    story = Story()
    told = [
        taught(1.3),
        taught(1.05),  # its interval holds 1: it says that there is no difference any more
        taught(0.5, gene="unroll"),
        taught(None),
        taught(1.3, machine="cpu_2"),
    ]
    found = [lesson_record(one) for one in latest([story.say(one) for one in told])]
    assert [(one["gene"], one["machine"], one["effect_text"][:5]) for one in found] == [
        ("unroll", "cpu_1", "0.500"),
        ("tile", "cpu_2", "1.300"),
        ("tile", "cpu_1", "rejec"),
        ("tile", "cpu_1", "1.050"),
    ]
    assert found[0]["evidence"] == [str(ONE)]


# ---- pages -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "offset", "said"), [(3, 0, "--offset 2"), (2, 0, ""), (3, 4, "--offset 6"), (0, 4, "nothing follows")]
)
def test_a_page_says_how_to_go_on(capsys: pytest.CaptureFixture[str], count: int, offset: int, said: str) -> None:
    emit_page([{"n": n} for n in range(count)], 2, offset, Format.TEXT, (Column("n", "n"),), "empty")
    shown = capsys.readouterr()
    assert said in shown.err
    assert bool(shown.err) == bool(said)
    assert len(shown.out.split()) == (1 + min(count, 2) if count else 0)
