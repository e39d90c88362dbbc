"""Every broken kernel is caught, by the checker that looks for its bug and by no other."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from kernel_lab.ptx.api import ALL, Checks, Kind, Report, Verdict, run
from kernel_lab.ptx.kernels.golden import ARCHITECTURES, cuda_source, golden_ptx
from kernel_lab.ptx.kernels.mutants import COMPARISON, MUTANTS, Mutant

SPINNING_STEPS = 20_000
"""Chosen: ten times what the clean parents of the spinning mutants need."""


def _cases(*, switchable: bool = False, comparison: bool = False) -> Iterator[object]:
    for mutant in MUTANTS:
        if (mutant.switch is not None or not switchable) and (mutant.caught_by == COMPARISON) == comparison:
            for architecture in mutant.kernel.architectures:
                yield pytest.param(mutant, architecture, id=f"{mutant.name}-{architecture}")


def _judged(mutant: Mutant, architecture: str, checks: Checks) -> Report:
    launch = mutant.kernel.problem(mutant.axes, seed=3).launch()
    if mutant.caught_by is Kind.STEP_BUDGET:
        launch = replace(launch, step_budget=SPINNING_STEPS)
    return run(golden_ptx(f"mutants/{mutant.name}", architecture), launch, checks=checks)


@pytest.mark.parametrize(("mutant", "architecture"), list(_cases()))
def test_a_mutant_is_caught_as_what_it_is(mutant: Mutant, architecture: str) -> None:
    report = _judged(mutant, architecture, ALL)
    assert mutant.caught_by in report.kinds()
    assert report.verdict is (Verdict.TIMEOUT if mutant.caught_by is Kind.STEP_BUDGET else Verdict.FAIL)


@pytest.mark.parametrize(("mutant", "architecture"), list(_cases(switchable=True)))
def test_a_mutant_gets_through_once_its_checker_is_off(mutant: Mutant, architecture: str) -> None:
    assert mutant.switch is not None
    report = _judged(mutant, architecture, replace(ALL, **{mutant.switch: False}))
    assert report.diagnostics == ()
    assert report.verdict is Verdict.PASS


@pytest.mark.parametrize(("mutant", "architecture"), list(_cases(comparison=True)))
def test_wrong_numbers_pass_every_checker_and_fail_the_comparison(mutant: Mutant, architecture: str) -> None:
    problem = mutant.kernel.problem(mutant.axes, seed=3)
    report = _judged(mutant, architecture, ALL)
    assert report.verdict is Verdict.PASS
    assert problem.worst_error(report.outputs) > 10.0


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_is_another_program_than_its_parent(mutant: Mutant) -> None:
    assert mutant.source() not in cuda_source(mutant.kernel.source)


def test_there_are_thirty_mutants_and_more_for_every_architecture() -> None:
    for architecture in ARCHITECTURES:
        assert sum(architecture in mutant.kernel.architectures for mutant in MUTANTS) >= 30


def test_no_two_mutants_share_a_name() -> None:
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_every_checker_has_a_mutant_that_only_it_sees() -> None:
    switches = {field.name for field in fields(Checks)}
    assert switches - {mutant.switch for mutant in MUTANTS} == set()
