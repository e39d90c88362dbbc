"""The compiler: an object or a reason for every candidate, under one id."""

from pathlib import Path

import pytest

from kernel_lab.backends.backend import Built, NotBuilt
from schemas.enums import AbandonReason, Language, Reason, Stage
from schemas.envelope import Envelope, encode
from schemas.events import CandidateAbandoned, CandidateCompiled, CandidateProposed, CandidateRejected
from schemas.faults import Bug, Misconfigured
from schemas.ids import answer_id
from schemas.model import DIAGNOSTICS_LIMIT_BYTES
from schemas.work import Kernel, MachineClass
from services.compiler.core import Compile, Compiled, Compiler, Refused
from services.compiler.work import perform
from services.runtime.artifacts import ArtifactStore
from services.runtime.routes import INPUTS
from services.runtime.service import Do, Quiet
from tests.search_story import MACHINE, Story, build, kernel


def cause(of: Kernel | str = "k1") -> Envelope[CandidateProposed]:
    story = Story()
    story.proposed(of)
    return story.log[0].envelope


def work() -> Compile:
    return Compile(kernel("k1"), "rms_norm", MACHINE)


class Says:
    """A backend that gives one answer and remembers the question."""

    language = Language.C

    def __init__(self, says: Built | NotBuilt) -> None:
        self._says = says
        self.asked: list[tuple[Kernel, str, MachineClass]] = []

    def compile(self, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        self.asked.append((kernel, entry, machine))
        return self._says


def test_the_compiler_takes_the_work_that_the_queue_brings() -> None:
    assert Compiler.inputs == INPUTS[Compiler.name]


def test_a_proposed_candidate_is_compiled_for_its_machine_class_beside_other_shared_work() -> None:
    proposed = cause()
    assert Compiler().decide(proposed) == Do(work())
    assert work().quiet is Quiet.SHARED


def test_a_null_kernel_needs_no_quiet() -> None:
    null = kernel("n").model_copy(update={"language": Language.NULL})
    assert Compile(null, "rms_norm", MACHINE).quiet is Quiet.NONE


def test_an_object_is_copied_forward_with_its_task() -> None:
    proposed = cause()
    (draft,) = Compiler().conclude(proposed, work(), Compiled(build(kernel("k1")), 41.5, "unused variable"))
    assert draft.id == answer_id(proposed.id, "compile")
    assert draft.fact == CandidateCompiled(
        goal_id="g1",
        candidate_id=proposed.id,
        generation=0,
        build=build(kernel("k1")),
        compile_ms=41.5,
        warnings="unused variable",
        task=proposed.fact.task,
    )


def test_a_source_that_is_no_kernel_is_rejected_with_what_the_compiler_said() -> None:
    proposed = cause()
    refused = Refused(Reason.DOES_NOT_COMPILE, "k.c:3:1: expected ';'", "k.c: In function…")
    (draft,) = Compiler().conclude(proposed, work(), refused)
    assert draft.id == answer_id(proposed.id, "compile")
    assert draft.fact == CandidateRejected(
        goal_id="g1",
        candidate_id=proposed.id,
        generation=0,
        stage=Stage.COMPILE,
        reason=Reason.DOES_NOT_COMPILE,
        message="k.c:3:1: expected ';'",
        diagnostics="k.c: In function…",
    )


def test_endless_diagnostics_are_cut_to_fit_a_fact() -> None:
    proposed = cause()
    refused = Refused(Reason.DOES_NOT_COMPILE, "m" * 100_000, "d\x00" * 1_000_000)
    (draft,) = Compiler().conclude(proposed, work(), refused)
    assert isinstance(draft.fact, CandidateRejected)
    assert len(draft.fact.diagnostics.encode()) <= DIAGNOSTICS_LIMIT_BYTES
    encode(Envelope(draft.id, draft.fact, "assay/compiler/1", proposed.time))


def test_the_largest_source_still_fits_a_compiled_fact() -> None:
    """Source text may be 256 KiB; escaping a line end doubles it, and a fact may have 512 KiB."""
    proposed = cause(kernel("k1", source="int x;\n" * (256 * 1024 // 7)))
    (draft,) = Compiler().conclude(proposed, work(), Compiled(build(proposed.fact.kernel), 1.0, "w" * 10**6))
    encode(Envelope(draft.id, draft.fact, "assay/compiler/1", proposed.time))


def test_a_lost_compilation_abandons_the_candidate_under_the_same_id() -> None:
    proposed = cause()
    (draft,) = Compiler().abandon(proposed, AbandonReason.WORKER_LOST, "handed out six times")
    assert draft.id == answer_id(proposed.id, "compile")
    assert draft.fact == CandidateAbandoned(
        goal_id="g1",
        candidate_id=proposed.id,
        generation=0,
        stage=Stage.COMPILE,
        reason=AbandonReason.WORKER_LOST,
        message="handed out six times",
    )


def test_another_fact_is_no_work() -> None:
    with pytest.raises(Bug, match=r"generation\.due"):
        Compiler().decide(Story().generation_due().envelope)


def test_an_object_is_in_the_store_before_it_is_announced(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path.as_uri())
    backend = Says(Built(b"\x7fELF", "digest", ("gcc", "k.c", "-o", "k.so"), "gcc 12", 40.0, ""))
    outcome = perform(work(), {Language.C: backend}, store)
    assert isinstance(outcome, Compiled)
    assert store.get(outcome.build.object) == b"\x7fELF"
    assert outcome.build.kernel == kernel("k1")
    assert backend.asked == [(kernel("k1"), "rms_norm", MACHINE)]


def test_what_does_not_compile_leaves_nothing_in_the_store(tmp_path: Path) -> None:
    store = ArtifactStore((tmp_path / "store").as_uri())
    backend = Says(NotBuilt(Reason.DOES_NOT_COMPILE, "no", "long"))
    assert perform(work(), {Language.C: backend}, store) == Refused(Reason.DOES_NOT_COMPILE, "no", "long")
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def test_a_language_that_nobody_compiles_is_a_fault_of_the_setup(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="no backend compiles c"):
        perform(work(), {}, ArtifactStore(tmp_path.as_uri()))
