"""Outputs against the float64 reference: finite pattern first, then the bound. NaN is never a wildcard."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernel_lab.verify.checks import ALL_CHECKS, Checks
from kernel_lab.verify.draws import Draw, Prepared
from kernel_lab.verify.finding import Finding
from kernel_lab.workloads.windows import window_of, window_rms
from kernel_lab.workloads.workload import Array
from schemas.enums import Reason
from schemas.verdict import Worst

F32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Within:
    """Every element is inside its bound; `worst` is the one closest to it (None for an empty output)."""

    worst: Worst | None


def against_bound(
    prepared: Prepared, got: Mapping[str, Array], scale: float, checks: Checks = ALL_CHECKS
) -> Within | Finding:
    """Every output element has the reference's finite pattern and lies within `scale` times its bound, and so does
    every window of an output that has them."""
    worst: Worst | None = None
    for name, want in prepared.reference.items():
        bound = prepared.bound[name] * scale
        judged = _one_output(prepared.draw, name, got[name], want, bound, checks)
        if isinstance(judged, Finding):
            return judged
        worst = closer(worst, judged.worst)
        if checks.windows and name in prepared.workload.windows and want.size:
            judged = _every_window(prepared, name, got[name], bound)
            if isinstance(judged, Finding):
                return judged
            worst = closer(worst, judged.worst)
    return Within(worst)


def exactly(prepared: Prepared, got: Mapping[str, Array]) -> Finding | None:
    """None when every output equals the reference by value: −0 equals +0, NaN equals nothing."""
    for name, want in prepared.reference.items():
        wrong = got[name].astype(np.float64) != want
        if wrong.any():
            at = _first(wrong)
            worst = _worst(prepared.draw, name, at, got[name], want, np.zeros_like(want))
            return Finding(
                Reason.NOT_EXACT,
                f"{prepared.draw}: {name}{list(at)} is {worst.got}, exactly {worst.want} was due",
                worst,
            )
    return None


def closer(one: Worst | None, other: Worst | None) -> Worst | None:
    """Whichever is closer to its bound."""
    if one is None or other is None:
        return one or other
    return other if (other.margin or 0.0) > (one.margin or 0.0) else one


def _one_output(
    draw: Draw, name: str, got: Array, want: NDArray[np.float64], bound: NDArray[np.float64], checks: Checks
) -> Within | Finding:
    if want.size == 0:
        return Within(None)
    odd = _breaks_pattern(got, want, bound)
    if odd.any():
        if checks.finite_pattern:
            return _not_finite(draw, name, _first(odd), got, want, bound)
        got = np.where(odd, want, got)
    margin = _margins(got, want, bound)
    at = np.unravel_index(int(np.argmax(margin)), margin.shape)
    worst = _worst(draw, name, at, got, want, bound)
    if margin[at] > 1.0 and checks.bound:
        message = f"{draw}: {name}{list(worst.index)} is {worst.got}, want {worst.want} ± {worst.bound}"
        return Finding(Reason.OUT_OF_BOUND, f"{message}; {_share(margin)}", worst)
    return Within(worst)


def _every_window(prepared: Prepared, name: str, got: Array, bound: NDArray[np.float64]) -> Within | Finding:
    """The RMS rule of one output. Non-finite elements have been judged already and count for nothing here."""
    want, windows = prepared.reference[name], prepared.workload.windows[name]
    buffer = next(buffer for buffer in prepared.workload.outputs if buffer.name == name)
    extents = windows.extents(buffer, prepared.draw.axes)
    comparable = np.isfinite(got) & np.isfinite(want)
    with np.errstate(all="ignore"):
        error = np.where(comparable, np.abs(got.astype(np.float64) - want), 0.0)
        found, allowed = window_rms(error, extents), window_rms(bound, extents) / windows.peak
        margin = np.where(found == 0.0, 0.0, found / allowed)
    at = np.unravel_index(int(np.argmax(margin)), margin.shape)
    span = window_of(at, extents, want.shape)
    inside = np.unravel_index(int(np.argmax(error[span])), error[span].shape)
    index = tuple(int(part.start + i) for part, i in zip(span, inside, strict=True))
    worst = _over_window(_worst(prepared.draw, name, index, got, want, bound), float(found[at]), float(allowed[at]))
    if margin[at] <= 1.0:
        return Within(worst)
    where = ", ".join(f"{part.start}:{part.stop}" for part in span)
    message = f"{prepared.draw}: the RMS error of {name}[{where}] is {worst.error}, at most {worst.bound} was due"
    return Finding(Reason.OUT_OF_BOUND, f"{message}; {int((margin > 1.0).sum())} of {margin.size} windows", worst)


def _over_window(element: Worst, rms_error: float, rms_bound: float) -> Worst:
    """`element` as the worst of its window: error and bound are the window's RMS."""
    margin = 0.0 if rms_error == 0.0 else (rms_error / rms_bound if rms_bound > 0.0 else None)
    return element.model_copy(update={"error": _text(rms_error), "bound": _text(rms_bound), "margin": margin})


def _breaks_pattern(got: Array, want: NDArray[np.float64], bound: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Where `got` is finite and the reference, rounded to f32, is not, or the other way round.

    Within one bound of the largest float either is right: there rounding decides.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = want.astype(np.float32)
        at_the_edge = np.isfinite(want) & (np.abs(want) + bound > F32_MAX) & (np.abs(want) - bound <= F32_MAX)
    finite = np.isfinite(rounded)
    same_infinity = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    right = np.where(finite, np.isfinite(got), same_infinity)
    edge_right = at_the_edge & ~np.isnan(got) & (np.isfinite(got) | (np.signbit(got) == np.signbit(want)))
    return np.asarray(~(right | edge_right), dtype=np.bool_)


def _margins(got: Array, want: NDArray[np.float64], bound: NDArray[np.float64]) -> NDArray[np.float64]:
    """|got − want| / bound; 0 where both are the same infinity or NaN, infinite where a zero bound is broken."""
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.float64) - want)
        comparable = np.isfinite(got) & np.isfinite(want)
        ratio = np.where(error == 0.0, 0.0, error / bound)
    return np.where(comparable, ratio, 0.0)


def _not_finite(
    draw: Draw, name: str, at: tuple[int, ...], got: Array, want: NDArray[np.float64], bound: NDArray[np.float64]
) -> Finding:
    worst = _worst(draw, name, at, got, want, bound)
    return Finding(Reason.NON_FINITE, f"{draw}: {name}{list(at)} is {worst.got}, want {worst.want}", worst)


def _worst(
    draw: Draw,
    name: str,
    at: tuple[np.intp, ...] | tuple[int, ...],
    got: Array,
    want: NDArray[np.float64],
    bound: NDArray[np.float64],
) -> Worst:
    value, due, allowed = float(got[at]), float(want[at]), float(bound[at])
    error = abs(value - due)
    margin = error / allowed if allowed > 0 else (0.0 if error == 0 else float("inf"))
    return Worst(
        axes=dict(draw.axes),
        distribution=draw.distribution,
        output=name,
        index=tuple(int(i) for i in at),
        got=_text(value),
        want=_text(due),
        error=_text(error),
        bound=_text(allowed),
        margin=margin if np.isfinite(margin) else None,
    )


def _text(value: float) -> str:
    return f"{value:.17g}"


def _share(margin: NDArray[np.float64]) -> str:
    return f"{int((margin > 1.0).sum())} of {margin.size} elements are past their bound"


def _first(mask: NDArray[np.bool_]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argwhere(mask)[0])
