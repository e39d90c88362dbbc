"""A recorded candidate is judged again from the log alone, and a record that does not hold is seen."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from kernel_lab.backends import BACKENDS
from kernel_lab.backends.backend import Built
from kernel_lab.machine import machine_class
from kernel_lab.spaces.launch import kernel_from_source
from kernel_lab.verify.court import open_court
from kernel_lab.verify.subject import Plan
from kernel_lab.workloads import WORKLOADS
from schemas.enums import JudgedAs, Language, Reason, Stage
from schemas.envelope import Envelope, answer, encode
from schemas.events import CandidateCompiled, CandidateProposed, CandidateRejected, CandidateVerified, Fact
from schemas.faults import Misconfigured
from schemas.goal import Shape
from schemas.verdict import Judgement
from schemas.work import Artifact, Build, Kernel, Task
from services.console.rejudge import OnRecord, Rejudged, read_candidate, rejudge
from services.evidence.log import Incoming
from services.evidence.memory_log import MemoryLog
from services.runtime.settings import Settings
from tests.fixtures.facts import BEGIN
from tests.search_story import task
from tests.zoo.inmates import inmates

SHAPES = (Shape(axes={"T": 3, "H": 64}),)
ZOO = {inmate.name: inmate for kind in ("good", "bad") for inmate in inmates(kind)}


def kernel(name: str) -> Kernel:
    made = kernel_from_source(ZOO[name].source, Language.C, machine_class().route)
    assert isinstance(made, Kernel)
    return made


def of_task() -> Task:
    return task("g", machine_class(), workload="rms_norm", shapes=SHAPES)


@pytest.fixture(scope="module")
def plain() -> OnRecord:
    """An honest kernel, compiled and judged as the services do it."""
    machine, honest = machine_class(), kernel("rms_norm__plain")
    built = BACKENDS[Language.C].compile(honest, "rms_norm", machine)
    assert isinstance(built, Built)
    judgement = open_court("auto").judge(built.object, honest, machine, WORKLOADS["rms_norm"], Plan(SHAPES))
    made = Build(
        kernel=honest,
        object=Artifact(sha256=built.sha256, uri="memory://gone", size=len(built.object)),
        command=built.command,
        toolchain=built.toolchain,
    )
    return OnRecord(uuid4(), honest, of_task(), build=made, judgement=judgement)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path)


def test_an_honest_record_stands_with_the_same_object(plain: OnRecord, settings: Settings) -> None:
    found = rejudge(plain, settings)
    assert (found.recorded, found.again, found.fresh) == ("verified",) * 3
    assert (found.same_object, found.same_ladder) == (True, True)
    assert found.stands
    assert not found.contradicts


def test_a_source_that_was_swapped_under_a_verdict_is_seen(plain: OnRecord, settings: Settings) -> None:
    found = rejudge(replace(plain, kernel=kernel("rms_norm__forgets_eps")), settings)
    assert (found.recorded, found.again, found.same_object) == ("verified", "rejected", False)
    assert found.contradicts


def test_a_verdict_that_was_swapped_under_a_source_is_seen(plain: OnRecord, settings: Settings) -> None:
    assert plain.judgement is not None
    forged = plain.judgement.model_copy(update={"verdict": JudgedAs.REJECTED, "reason": Reason.OUT_OF_BOUND})
    found = rejudge(replace(plain, judgement=forged), settings)
    assert found.contradicts
    assert found.again == "verified"


def test_a_verdict_of_another_ladder_accuses_nobody() -> None:
    found = Rejudged("id", "verified", "rejected", "rejected", True, same_ladder=False, message="")
    assert not found.contradicts
    assert replace(found, same_ladder=True).contradicts


def test_what_did_not_compile_still_does_not(settings: Settings) -> None:
    broken = kernel("rms_norm__does_not_compile")
    found = rejudge(OnRecord(uuid4(), broken, of_task(), refused="syntax"), settings)
    assert (found.recorded, found.again) == ("rejected", "rejected")
    assert not found.contradicts
    assert found.message


def test_a_null_candidate_has_nothing_to_judge(plain: OnRecord, settings: Settings) -> None:
    null = plain.kernel.model_copy(update={"language": Language.NULL})
    found: Rejudged = rejudge(replace(plain, kernel=null), settings)
    assert not found.contradicts


# ---- what the log tells --------------------------------------------------------------------------------------------


async def log_with(judgement: Judgement | None = None, made: Build | None = None, refused: str | None = None) -> tuple[
    MemoryLog, Envelope[CandidateProposed]
]:  # fmt: skip
    """A log with one candidate that came so far."""
    log = MemoryLog()
    fact = CandidateProposed(
        goal_id="g",
        generation=1,
        island=0,
        strategy="test",
        author="test",
        parents=(),
        kernel=kernel("rms_norm__plain"),
        task=of_task(),
    )
    proposed = Envelope(uuid4(), fact, "assay/test/1", BEGIN)
    stated: list[Envelope[Fact]] = [proposed]

    def say(slot: str, about: Fact) -> None:
        draft = answer(stated[-1], slot, about)
        stated.append(Envelope(draft.id, about, "assay/test/1", BEGIN, draft.causation_id))

    about: dict[str, Any] = {"goal_id": "g", "candidate_id": proposed.id, "generation": 1}
    if made is not None:
        say("compile", CandidateCompiled(**about, build=made, compile_ms=1.0, warnings="", task=fact.task))
    if judgement is not None and made is not None:
        say("verify", CandidateVerified(**about, build=made, judgement=judgement, task=fact.task))
    if refused is not None:
        rejected = CandidateRejected(**about, stage=Stage.COMPILE, reason=Reason.DOES_NOT_COMPILE, message=refused)
        say("compile", rejected)
    await log.append([Incoming(encode(one), "epoch", seq) for seq, one in enumerate(stated, 1)])
    return log, proposed


async def test_a_candidate_is_read_with_its_build_and_its_judgement(plain: OnRecord) -> None:
    log, proposed = await log_with(plain.judgement, plain.build)
    found = await read_candidate(log, proposed.id)
    assert (found.build, found.judgement, found.verdict) == (plain.build, plain.judgement, "verified")
    assert found.task == of_task()


async def test_a_refusal_without_a_judgement_is_a_rejection_and_an_open_candidate_is_not_judged() -> None:
    log, proposed = await log_with(refused="syntax error")
    assert (await read_candidate(log, proposed.id)).verdict == "rejected"
    log, proposed = await log_with()
    assert (await read_candidate(log, proposed.id)).verdict == "not judged"


async def test_an_id_that_is_no_candidate_is_refused(plain: OnRecord) -> None:
    log, _ = await log_with(plain.judgement, plain.build)
    compiled = [row.event_id async for row in log.rows()][1]
    assert compiled is not None
    with pytest.raises(Misconfigured, match=r"is a candidate\.compiled\.v1, no candidate"):
        await read_candidate(log, compiled)
    with pytest.raises(Misconfigured, match="is not in this log"):
        await read_candidate(log, uuid4())
