"""One metamorphic relation asked of a candidate: the calls it derives from a draw, and what must hold between them."""

from dataclasses import replace

import numpy as np

from kernel_lab.verify.compare import against_bound
from kernel_lab.verify.draws import Draw, Prepared, derived_seed, distribution_named, prepare
from kernel_lab.verify.exercise import AS_LEFT, Exerciser, Outputs
from kernel_lab.verify.finding import CouldNot, Finding
from kernel_lab.verify.subject import Climb
from kernel_lab.workloads.workload import Call, Claim, Distribution, Relation, Workload
from schemas.enums import Reason

JOINT = "/"
"""`normal/negation` names the calls that the relation derives from a draw of `normal`."""


def relation_named(workload: Workload, name: str) -> tuple[Distribution, Relation] | None:
    """The distribution and the relation that a counterexample of V4 names."""
    first, _, second = name.partition(JOINT)
    distribution = distribution_named(workload, first)
    relation = next((one for one in workload.relations if one.name == second and one.steps), None)
    return (distribution, relation) if distribution and relation else None


def holds(
    climb: Climb, exerciser: Exerciser, distribution: Distribution, relation: Relation, draw: Draw
) -> int | Finding | CouldNot:
    """How many calls and claims were checked, or the finding. `draw` names relation and distribution; its seed decides
    the draw and what the relation makes of it."""
    assert relation.steps is not None, f"{relation.name} is only stated"
    base = prepare(climb.workload, distribution, draw)
    rng = np.random.Generator(np.random.PCG64(derived_seed(draw.seed, relation.name, draw.axes, 0)))
    steps, checked = relation.steps(base.inputs, draw.axes, rng), 0
    try:
        call = next(steps)
        while True:
            outputs = _outputs(climb, exerciser, relation, call, draw)
            if not isinstance(outputs, dict):
                return outputs
            checked += 1
            call = steps.send(outputs)
    except StopIteration as ended:
        claims: tuple[Claim, ...] = ended.value
    for claim in claims:
        if broken := _broken(claim, relation, draw):
            return replace(broken, counterexample=draw.kept(climb.workload.name))
    return checked + len(claims)


def _outputs(
    climb: Climb, exerciser: Exerciser, relation: Relation, call: Call, draw: Draw
) -> Outputs | Finding | CouldNot:
    """The outputs of one call of the relation, within the bound of the reference where that is asked for."""
    at = replace(draw, axes=dict(call.axes))
    prepared = Prepared(climb.workload, at, {name: np.ascontiguousarray(a) for name, a in call.inputs.items()})
    got = exerciser.run(prepared, AS_LEFT)
    kept = draw.kept(climb.workload.name)
    if isinstance(got, Finding):
        return replace(got, counterexample=kept)
    if isinstance(got, CouldNot) or not call.judged:
        return got
    judged = against_bound(prepared, got, climb.plan.tolerance_scale, climb.checks)
    if isinstance(judged, Finding):
        message = f"{relation.statement}; but {judged.message}"
        return Finding(Reason.RELATION_BROKEN, message, judged.worst, kept)
    return got


def _broken(claim: Claim, relation: Relation, draw: Draw) -> Finding | None:
    with np.errstate(all="ignore"):
        apart = np.abs(claim.got.astype(np.float64) - claim.want.astype(np.float64))
    wrong = ~(apart <= claim.allowed)
    if not wrong.any():
        return None
    at = tuple(int(i) for i in np.argwhere(np.atleast_1d(wrong))[0])
    got, want = np.atleast_1d(claim.got)[at], np.atleast_1d(claim.want)[at]
    message = f"{draw}: {relation.statement}; but {claim.what}{list(at)} is {got}, want {want}"
    return Finding(Reason.RELATION_BROKEN, message)
