"""Every inmate gets its verdict, rung and reason; and every check of the ladder is one that some inmate needs."""

from dataclasses import replace

import pytest

from kernel_lab.verify.court import Court
from kernel_lab.verify.file import verify_source
from kernel_lab.verify.ladder import LADDER
from kernel_lab.verify.subject import Depth
from schemas.enums import RungStatus
from schemas.verdict import Judgement
from schemas.work import MachineClass
from tests.zoo.inmates import Inmate, inmates, told
from tests.zoo.judging import every_check, without

BAD, GOOD = inmates("bad"), inmates("good")
GUARDED = [(check, inmate) for inmate in BAD for check in inmate.guards]


def judged(inmate: Inmate, court: Court, machine: MachineClass, depth: Depth | None = None) -> Judgement:
    plan = replace(inmate.plan, depth=depth) if depth else inmate.plan
    return verify_source(inmate.source, inmate.workload, plan, court, machine, inmate.seeds)


DEEP_GOOD = tuple(inmate for inmate in GOOD if inmate.name in {"reduce_sum__openmp_reduction", "softmax__online"})
"""Two here, so that the tests stay quick; `make zoo` takes every one through all rungs."""


def by_name(inmate: Inmate) -> str:
    return inmate.name


@pytest.mark.parametrize("inmate", BAD, ids=by_name)
def test_a_bad_candidate_is_rejected_at_its_rung_for_its_reason(
    inmate: Inmate, court: Court, machine: MachineClass
) -> None:
    judgement = judged(inmate, court, machine)
    assert told(judgement) == inmate.expect, judgement.message
    assert judgement.message
    assert judgement.rungs[-1].status is RungStatus.FAILED


@pytest.mark.parametrize("inmate", GOOD, ids=by_name)
def test_a_good_candidate_is_verified(inmate: Inmate, court: Court, machine: MachineClass) -> None:
    judgement = judged(inmate, court, machine)
    assert told(judgement) == inmate.expect, judgement.message
    assert all(result.status is RungStatus.PASSED and result.checks for result in judgement.rungs)
    assert judgement.worst is None or (judgement.worst.margin or 0.0) <= 1.0


@pytest.mark.parametrize("inmate", DEEP_GOOD, ids=by_name)
def test_a_good_candidate_climbs_every_rung(inmate: Inmate, court: Court, machine: MachineClass) -> None:
    judgement = judged(inmate, court, machine, Depth.DEEP)
    assert told(judgement) == inmate.expect, judgement.message
    assert len(judgement.rungs) == len(LADDER)


@pytest.mark.long
@pytest.mark.parametrize(
    ("check", "inmate"), GUARDED, ids=lambda value: value if isinstance(value, str) else value.name
)
def test_without_one_check_some_inmate_gets_another_verdict(
    check: str, inmate: Inmate, court: Court, machine: MachineClass
) -> None:
    assert told(without(check, inmate, court, machine)) != inmate.expect


def test_every_check_has_an_inmate_that_needs_it() -> None:
    assert {check for check, _ in GUARDED} == set(every_check())


def test_the_zoo_is_large_enough_and_every_inmate_says_what_it_must_get() -> None:
    assert len(BAD) >= 60
    assert len(GOOD) >= 20
    assert all(inmate.expect != "verified" for inmate in BAD)
    assert all(inmate.expect == "verified" for inmate in GOOD)
