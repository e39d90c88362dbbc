"""The compiler's effect with the host's compiler in its sandbox: a kernel of the real space becomes an object."""

from pathlib import Path

import numpy as np
import pytest

from kernel_lab.machine import machine_class
from kernel_lab.spaces import SPACES
from schemas.enums import JudgedAs, Language, Reason
from schemas.goal import Shape
from schemas.work import Kernel
from services.compiler.core import Compile, Compiled, Refused
from services.compiler.work import open_effect
from services.proposer.portfolio import Proposed, propose
from services.runtime.artifacts import ArtifactStore
from services.runtime.settings import Settings
from services.verifier.core import Verify
from services.verifier.work import open_effect as open_verifier
from tests.search_spaces import brief
from tests.search_story import goal, kernel, task

MACHINE = machine_class()


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def proposed(workload: str, language: Language = Language.C) -> Kernel:
    """A kernel as the proposer proposes it for this machine."""
    asked = brief(
        of=goal(workload=workload),
        task=task(machine=MACHINE, workload=workload, languages=(language,)),
        size=2,
        seed=int(np.random.default_rng(5).integers(2**31)),
    )
    outcome = propose(asked, SPACES)
    assert isinstance(outcome, Proposed)
    return outcome.proposals[0].kernel


@pytest.mark.parametrize("workload", ["rms_norm", "softmax", "reduce_sum"])
def test_a_proposed_kernel_is_compiled_and_its_object_is_in_the_store(workload: str, settings: Settings) -> None:
    work = Compile(proposed(workload), workload, MACHINE)
    outcome = open_effect(settings)(work)
    assert isinstance(outcome, Compiled), outcome
    assert ArtifactStore(settings.artifacts).get(outcome.build.object).startswith(b"\x7fELF")
    assert outcome.build.kernel == work.kernel


def test_the_same_kernel_gives_the_same_object_again(settings: Settings) -> None:
    work = Compile(proposed("rms_norm"), "rms_norm", MACHINE)
    first, second = open_effect(settings)(work), open_effect(settings)(work)
    assert isinstance(first, Compiled)
    assert isinstance(second, Compiled)
    assert first.build == second.build


def test_a_source_that_does_not_compile_is_refused_with_the_compilers_words(settings: Settings) -> None:
    broken = kernel("broken", source="void rms_norm(const float *x { return 1 }\n")
    outcome = open_effect(settings)(Compile(broken, "rms_norm", MACHINE))
    assert isinstance(outcome, Refused)
    assert outcome.reason is Reason.DOES_NOT_COMPILE
    assert "k.c:1" in outcome.diagnostics


def test_a_null_kernel_needs_no_compiler(settings: Settings) -> None:
    null = proposed("rms_norm", Language.NULL)
    outcome = open_effect(settings)(Compile(null, "rms_norm", MACHINE))
    assert isinstance(outcome, Compiled)
    assert outcome.build.toolchain == "null"


def test_another_machines_verifier_builds_a_candidate_again_to_the_same_bytes_or_gives_no_verdict(
    tmp_path: Path,
) -> None:
    """The artifact store of a joined worker is its own: it has the fact, and not the object."""
    made_by, judged_by = Settings(data_dir=tmp_path / "home"), Settings(data_dir=tmp_path / "away")
    compiled = open_effect(made_by)(Compile(proposed("rms_norm"), "rms_norm", MACHINE))
    assert isinstance(compiled, Compiled)
    judge = open_verifier(judged_by)
    here = task(machine=MACHINE, workload="rms_norm", shapes=(Shape(axes={"T": 3, "H": 64}),))
    assert judge(Verify(compiled.build, here)).verdict is JudgedAs.VERIFIED
    stranger = compiled.build.object.model_copy(update={"sha256": "0" * 64})
    refused = judge(Verify(compiled.build.model_copy(update={"object": stranger}), here))
    assert refused.verdict is JudgedAs.NO_VERDICT
    assert "does not rebuild it" in (refused.message or "")
