"""What the KDA workloads share: how inputs are drawn through the gates, and how far honest float32 may be off."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from kernel_lab.workloads import draws
from kernel_lab.workloads.bounds import SUBNORMAL_SPACING, UNIT_ROUNDOFF
from kernel_lab.workloads.kda_recurrence import (
    Real,
    Result,
    Tokens,
    bounded_gate,
    by_rows,
    normalised,
    plain_gate,
    softplus_gate,
    step,
)
from kernel_lab.workloads.relations import alone, negated, permuted, scaled
from kernel_lab.workloads.windows import F64, over_windows, window_rms
from kernel_lab.workloads.workload import (
    Array,
    Arrays,
    Axes,
    Buffer,
    Call,
    Claim,
    Distribution,
    Relation,
    Scalars,
    Steps,
    Windows,
)

SCALE = float(np.float32(128.0**-0.5))
"""K^-½ of the usual K = 128. It is passed whatever K is: a parameter like any other."""
RELATIVE = 1e-5
"""RMS error over RMS of the exact values, per head and per 64-token window (verification.md, The bound). Honest
reorderings give 6e-7."""
PEAK = 8.0
"""How far above the RMS a single error may be. Chosen: errors are sums of many roundings, so nearly normal, and a
normal error of 8 sigma comes once in 10^15."""
NOISE_SIGMAS = 3.0
"""Chosen: the propagated noise takes each rounding at its largest, so single sums stay within three of it."""
BOUND_SOURCE = "RMS error ≤ 1e-5·RMS(y64) per head and 64 tokens: verification.md, The bound, KDA"
Shape = tuple[int, ...]
Draw = Callable[[Shape, np.random.Generator], F64]


def _unit(shape: Shape, rng: np.random.Generator) -> F64:
    return normalised(rng.standard_normal(shape))


def _unit_positive(shape: Shape, rng: np.random.Generator) -> F64:
    """Keys in one quadrant: neighbours overlap by about three quarters."""
    return normalised(1.0 - rng.random(shape))


def _one_hot(shape: Shape, rng: np.random.Generator) -> F64:
    return draws.one_hot(shape, rng).astype(np.float64)


def _one_key(shape: Shape, rng: np.random.Generator) -> F64:
    """The same key at every token and head: each update overwrites the one before."""
    return np.broadcast_to(_unit((shape[-1],), rng), shape).copy()


def _sigmoid_beta(shape: Shape, rng: np.random.Generator) -> F64:
    return np.asarray(np.exp(plain_gate(rng.standard_normal(shape))))


def _saturated_beta(shape: Shape, rng: np.random.Generator) -> F64:
    return rng.integers(0, 2, shape).astype(np.float64)


def _gate_parameters(shape: Shape, rng: np.random.Generator) -> tuple[F64, F64]:
    """A per head and a bias per channel, as flash-linear-attention initialises them: e^A uniform in [1, 16], softplus
    of the bias log-uniform in [0.001, 0.1]."""
    heads, channels = shape[-2:]
    step_size = np.exp(rng.uniform(np.log(1e-3), np.log(1e-1), (heads, channels)))
    return np.log(rng.uniform(1.0, 16.0, (heads, 1))), np.log(np.expm1(step_size))


def _softplus(shape: Shape, rng: np.random.Generator) -> F64:
    return softplus_gate(rng.standard_normal(shape), *_gate_parameters(shape, rng))


def _strong_softplus(shape: Shape, rng: np.random.Generator) -> F64:
    """Log decays down to some hundreds: e^g is subnormal or 0, and no sum of them may be exponentiated with a plus."""
    return softplus_gate(12.0 * rng.standard_normal(shape), *_gate_parameters(shape, rng))


def _bounded(shape: Shape, rng: np.random.Generator) -> F64:
    return bounded_gate(rng.standard_normal(shape), *_gate_parameters(shape, rng))


def _at_limit(shape: Shape, rng: np.random.Generator) -> F64:
    """The bounded gate saturated: −5 in every channel, −320 over a chunk of 64."""
    return bounded_gate(np.full(shape, 100.0) + rng.random(shape), np.zeros((shape[-2], 1)), np.zeros(shape[-1:]))


def _plain(shape: Shape, rng: np.random.Generator) -> F64:
    return plain_gate(2.0 + rng.standard_normal(shape))


def _open(shape: Shape, _rng: np.random.Generator) -> F64:
    return np.zeros(shape)


@dataclass(frozen=True)
class Recipe:
    """How each input is drawn."""

    name: str
    values: draws.Fill = draws.normal
    """v and the initial state."""
    gate: Draw = _softplus
    keys: Draw = _unit
    beta: Draw = _sigmoid_beta
    zero_mean: bool = False


RECIPES: tuple[Recipe, ...] = (
    Recipe("normal", zero_mean=True),
    Recipe("bounded_gate", gate=_bounded, zero_mean=True),
    Recipe("gate_at_limit", gate=_at_limit, zero_mean=True),
    Recipe("plain_gate", gate=_plain, zero_mean=True),
    Recipe("no_decay", gate=_open),
    Recipe("strong_decay", gate=_strong_softplus),
    Recipe("uniform_positive", values=draws.uniform_positive, keys=_unit_positive),
    Recipe("offset", values=draws.offset),
    Recipe("lognormal_outliers", values=draws.lognormal_outliers, zero_mean=True),
    Recipe("subnormal", values=draws.subnormal),
    Recipe("signed_zero", values=draws.signed_zero),
    Recipe("large", values=draws.scaled_normal(2.0**90), zero_mean=True),  # linear in values: sums stay below 2^100
    Recipe("one_hot", keys=_one_hot),
    Recipe("saturated_beta", beta=_saturated_beta),
)
ONE_KEY = Recipe("one_key", keys=_one_key, beta=_saturated_beta)
"""For workloads with a time axis only."""
_LARGEST_INTEGER = 8


def _integers(shape: Shape, rng: np.random.Generator) -> draws.F32:
    return rng.integers(-_LARGEST_INTEGER, _LARGEST_INTEGER + 1, shape).astype(np.float32)


EXACT = Recipe("integers", values=_integers, gate=_open, keys=_one_hot, beta=_saturated_beta)
"""Every intermediate is an integer of magnitude below 2^24 in any honest order of evaluation."""


def _without_update(given: Arrays, axes: Axes, _rng: np.random.Generator) -> Steps:
    yield Call({**given, "beta": np.zeros_like(given["beta"])}, axes)
    return ()


@dataclass(frozen=True)
class Form:
    """One workload's layout: the axes in front of each head's vectors, and what its initial state is called."""

    lead: tuple[str, ...]
    state: str

    @property
    def vectors(self) -> tuple[Buffer, ...]:
        """q, k, v, g and beta."""
        wide, values = (*self.lead, "K"), (*self.lead, "V")
        return Buffer("q", wide), Buffer("k", wide), Buffer("v", values), Buffer("g", wide), Buffer("beta", self.lead)

    @property
    def windows(self) -> dict[str, Windows]:
        """Per head, and per 64 tokens where there are tokens."""
        return {"o": Windows({"B": 1, "T": 64, "H": 1}, PEAK), "s": Windows({"B": 1, "H": 1}, PEAK)}

    def distribution(self, recipe: Recipe, scalars: Scalars | None = None) -> Distribution:
        """`recipe` in this layout."""

        def draw(axes: Axes, rng: np.random.Generator) -> dict[str, Array]:
            lead = tuple(axes[name] for name in self.lead)
            keys, values = (*lead, axes["K"]), (*lead, axes["V"])
            drawn = {
                "q": recipe.keys(keys, rng).astype(np.float32),
                "k": recipe.keys(keys, rng).astype(np.float32),
                "v": recipe.values(values, rng),
                "g": recipe.gate(keys, rng).astype(np.float32),
                "beta": recipe.beta(lead, rng).astype(np.float32),
                self.state: recipe.values((axes["B"], axes["H"], axes["K"], axes["V"]), rng),
            }
            return {name: np.asarray(array) for name, array in drawn.items()}

        return Distribution(recipe.name, draw, recipe.zero_mean, scalars or {})

    @property
    def relations(self) -> tuple[Relation, ...]:
        """What any kernel of the recurrence keeps; with a time axis also what ties tokens together."""
        drawn = (*self.vectors, Buffer(self.state, ("B", "H", "K", "V")))
        linear = ("v", self.state)
        common = (
            scaled(linear, ("o", "s"), "scaling v and the initial state by a power of two scales o and s exactly"),
            negated(linear, ("o", "s"), "negating v and the initial state negates o and s"),
            permuted("head_permutation", "H", drawn, "permuting heads permutes o and s"),
            permuted("row_permutation", "K", drawn, "permuting keys, queries, gates and rows of the state permutes s"),
            alone("B", drawn, "a batch row gives the same result alone as within a batch"),
            Relation("no_update", "with beta = 0 the state only decays, and o reads it", _without_update),
        )
        if "T" not in self.lead:
            return common
        return (
            *common,
            Relation("state_hand_off", "two parts of the tokens, the state handed on, are each right", self._in_two),
            Relation("causality", "other last tokens change nothing before them", self._other_last_tokens),
        )

    def _in_two(self, given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        """The second part is judged from the state that the first one left."""
        cut = int(rng.integers(axes["T"] + 1))
        first = yield Call(self._between(given, 0, cut), {**axes, "T": cut})
        rest = {**self._between(given, cut, axes["T"]), self.state: first["s"]}
        yield Call(rest, {**axes, "T": axes["T"] - cut})
        return ()

    def _other_last_tokens(self, given: Arrays, axes: Axes, rng: np.random.Generator) -> Steps:
        cut = int(rng.integers(axes["T"] + 1))
        plain = yield Call(given, axes)
        changed = {b.name: given[b.name].copy() for b in self.vectors}
        changed["v"][:, cut:] = np.multiply(given["v"][:, cut:], np.float32(-3.0))
        other = yield Call({**given, **changed}, axes)
        before = plain["o"][:, :cut]
        return (Claim("o", other["o"][:, :cut], before, np.asarray(RELATIVE * np.abs(before).max(initial=0.0))),)

    def _between(self, given: Arrays, first: int, past: int) -> dict[str, Array]:
        return {**given, **{b.name: given[b.name][:, first:past] for b in self.vectors}}

    def exact(self) -> Distribution:
        """The exact tier: g = 0, beta 0 or 1, one-hot q and k, scale 1."""
        return self.distribution(EXACT, {"scale": 1.0})

    def tokens(self, inputs: Arrays, dtype: type[np.floating]) -> Tokens:
        """The vectors with a time axis, of one token where the workload has none."""
        arrays = {name: inputs[name].astype(dtype) for name in ("q", "k", "v", "g", "beta")}
        if "T" not in self.lead:
            arrays = {name: array[:, None] for name, array in arrays.items()}
        return Tokens(**arrays)

    def outputs(self, result: Result) -> dict[str, Real]:
        """o in this workload's layout, and s."""
        return {"o": result.o if "T" in self.lead else result.o[:, 0], "s": result.s}

    def bound(self, inputs: Arrays, scalars: Scalars, exact: Mapping[str, F64], axes: Axes) -> dict[str, F64]:
        """PEAK · max(1e-5 · RMS of the window, what rounding alone gives where the exact values cancel)."""
        state = inputs[self.state].astype(np.float64)
        noise = self.outputs(by_rows(rounding_noise, self.tokens(inputs, np.float64), state, scalars["scale"]))
        shapes = {"o": Buffer("o", (*self.lead, "V")), "s": Buffer("s", ("B", "H", "K", "V"))}
        return {
            name: _window_bound(
                exact[name], np.asarray(noise[name], np.float64), self.windows[name].extents(shapes[name], axes)
            )
            for name in ("o", "s")
        }


def _window_bound(exact: F64, noise: F64, extents: tuple[int, ...]) -> F64:
    if exact.size == 0:
        return np.zeros(exact.shape)
    due = np.maximum(RELATIVE * window_rms(exact, extents), NOISE_SIGMAS * window_rms(noise, extents))
    return PEAK * over_windows(due, extents, exact.shape)


def rounding_noise(tokens: Tokens, s0: Real, scale: float) -> Result:
    """The RMS that float32 errors may have at each output: first-order propagation of independent roundings.

    It is far below 1e-5 of the outputs but where these cancel, or are subnormal.
    """
    tokens = tokens.ungrouped()
    state: Real = s0
    state_error = np.zeros(s0.shape)
    error = np.zeros(tokens.v.shape)
    for t in range(tokens.v.shape[1]):
        token = tokens.between(t, t + 1)
        after, out = step(token, state, scale)
        state_error, error[:, t] = _step_noise(token, state, (after, out), state_error, scale)
        state = after
    return Result(np.sqrt(error), np.sqrt(state_error))


def _step_noise(token: Tokens, state: Real, exact: tuple[Real, Real], carried: F64, scale: float) -> tuple[F64, F64]:
    """Variances of the new state and the output. Each rounding is off by u of its result or half a subnormal spacing;
    a sum of K terms in any order by √K of its terms'."""
    u2, tiny2 = UNIT_ROUNDOFF**2, (SUBNORMAL_SPACING / 2.0) ** 2
    q, k, v, g = (x[:, 0] for x in (token.q, token.k, token.v, token.g))
    beta, terms = token.beta[:, 0][..., None], k.shape[-1]
    decay = np.exp(g)[..., None]
    decayed = decay * state
    decayed_error = decay**2 * carried + u2 * ((2.0 + np.abs(g))[..., None] * decayed) ** 2 + tiny2
    predicted = _over_rows(decayed, k)
    predicted_error = _over_rows(decayed_error, k**2) + terms * (u2 * _over_rows(decayed**2, k**2) + tiny2)
    update = beta * (v - predicted)
    update_error = beta**2 * (predicted_error + u2 * (v**2 + predicted**2)) + u2 * update**2 + 2.0 * tiny2
    written = k[..., None] * update[..., None, :]
    state_error = decayed_error + (k**2)[..., None] * update_error[..., None, :]
    state_error += u2 * (written**2 + exact[0] ** 2) + 2.0 * tiny2
    read = _over_rows(decayed**2, q**2) + _over_rows(written**2, q**2)
    read_error = _over_rows(state_error, q**2) + terms * u2 * read
    return state_error, scale**2 * read_error + u2 * exact[1] ** 2 + (1.0 + terms) * tiny2


def _over_rows(state: Real, by: Real) -> F64:
    return np.asarray(np.einsum("bhkv,bhk->bhv", state, by))


def state_bytes(axes: Axes) -> int:
    """Bytes of all heads' states."""
    return 4 * axes["B"] * axes["H"] * axes["K"] * axes["V"]


def vector_bytes(axes: Axes) -> tuple[int, int]:
    """Bytes of q, k, v, g and beta, and of o."""
    heads = axes["B"] * axes.get("T", 1) * axes["H"]
    return 4 * heads * (3 * axes["K"] + axes["V"] + 1), 4 * heads * axes["V"]


def flops(axes: Axes) -> int:
    """7 per element of the state and token: a decay, and three multiply-adds."""
    return 7 * axes.get("T", 1) * axes["B"] * axes["H"] * axes["K"] * axes["V"]


def distributions(form: Form) -> tuple[Distribution, ...]:
    """Every draw of the domain in the layout of `form`."""
    recipes = (*RECIPES, ONE_KEY) if "T" in form.lead else RECIPES
    return tuple(form.distribution(recipe) for recipe in recipes)
