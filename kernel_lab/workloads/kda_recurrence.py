"""Kimi Delta Attention (arXiv 2510.26692) in float64: its gates, the recurrence, and the same in chunks.

Per batch row and value head, with a state S of K rows and V columns:

    S~ = Diag(e^g_t) S_{t-1};  u_t = β_t (v_t − S~ᵀ k_t);  S_t = S~ + k_t u_tᵀ;  o_t = S_tᵀ (scale · q_t)

Shapes are flash-linear-attention's: q, k [B,T,H,K]; v, o [B,T,HV,V]; g [B,T,HV,K]; beta [B,T,HV]; states [B,HV,K,V],
HV a multiple of H. Here everything computes in the precision that it is given.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
Real = NDArray[np.floating]

NORM_EPS = 1e-6
"""Added to the sum of squares before q and k are divided by its root (arXiv 2510.26692; flash-linear-attention)."""
GATE_LIMIT = -5.0
"""The log decay that the bounded gate approaches."""
ROWS_ELEMENTS = 1 << 22
"""Elements of the states that are computed at once. Chosen: 32 MiB in float64, of which some ten copies are alive."""
CHUNK = 64
"""Tokens of a chunk, as in flash-linear-attention."""


@dataclass(frozen=True)
class Tokens:
    """What comes in, token by token."""

    q: Real
    k: Real
    v: Real
    g: Real
    beta: Real

    @property
    def groups(self) -> int:
        """Value heads that share one q and k."""
        return int(self.v.shape[2] // self.q.shape[2])

    def ungrouped(self) -> "Tokens":
        """With q and k repeated for each value head."""
        return replace(self, q=np.repeat(self.q, self.groups, axis=2), k=np.repeat(self.k, self.groups, axis=2))

    def rows(self, at: slice) -> "Tokens":
        """Some batch rows."""
        return Tokens(self.q[at], self.k[at], self.v[at], self.g[at], self.beta[at])

    def between(self, first: int, past: int) -> "Tokens":
        """Tokens `first` to `past` − 1."""
        at = slice(first, past)
        return Tokens(self.q[:, at], self.k[:, at], self.v[:, at], self.g[:, at], self.beta[:, at])


@dataclass(frozen=True)
class Result:
    """Outputs for each token, and the state after the last."""

    o: Real
    s: Real


Form = Callable[[Tokens, Real, float], Result]


def softplus_gate(x: F64, a_log: F64, dt_bias: F64) -> F64:
    """g = −e^A·softplus(x + bias): unbounded below."""
    return np.asarray(-np.exp(a_log) * np.logaddexp(0.0, x + dt_bias))


def bounded_gate(x: F64, a_log: F64, dt_bias: F64) -> F64:
    """g = −5·sigmoid(e^A (x + bias)): reaches −5 in any finite precision."""
    return np.asarray(GATE_LIMIT * _sigmoid(np.exp(a_log) * (x + dt_bias)))


def plain_gate(x: F64) -> F64:
    """g = log sigmoid(x): the decay itself is a sigmoid."""
    return np.asarray(-np.logaddexp(0.0, -x))


def normalised(x: F64) -> F64:
    """x / √(Σx² + eps) along the last axis."""
    return np.asarray(x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + NORM_EPS))


def recurrent(tokens: Tokens, s0: Real, scale: float) -> Result:
    """Token by token. Sums over K are taken in index order, so that in float32 this is plain C."""
    tokens = tokens.ungrouped()
    state, out = s0, np.zeros_like(tokens.v)
    for t in range(tokens.v.shape[1]):
        state, out[:, t] = step(tokens.between(t, t + 1), state, scale)
    return Result(out, np.array(state))


def step(token: Tokens, s0: Real, scale: float) -> tuple[Real, Real]:
    """The state after one token of ungrouped heads, and its output."""
    q, k, v = token.q[:, 0], token.k[:, 0], token.v[:, 0]
    decayed = np.exp(token.g[:, 0])[..., None] * s0
    update = token.beta[:, 0][..., None] * (v - _read(decayed, k))
    state = decayed + k[..., None] * update[..., None, :]
    return state, _read(state, q * q.dtype.type(scale))


def chunked(tokens: Tokens, s0: Real, scale: float) -> Result:
    """Chunk by chunk of 64 tokens, within each by pairwise decays.

    The factorised Gram (K e^G)(K e^−G)ᵀ overflows under the softplus gate even in float64, so D_ij = e^(G_i − G_j) is
    formed for each pair of tokens and channel.
    """
    tokens = tokens.ungrouped()
    state, outs = s0, [np.zeros_like(tokens.v[:, :0])]
    for first in range(0, tokens.v.shape[1], CHUNK):
        done = _chunk(tokens.between(first, first + CHUNK), state, scale)
        state = done.s
        outs.append(done.o)
    return Result(np.concatenate(outs, axis=1), np.array(state))


def by_rows(form: Form, tokens: Tokens, s0: Real, scale: float) -> Result:
    """`form` over some batch rows at a time: temporaries are a few times ROWS_ELEMENTS, however large the batch."""
    rows = max(1, ROWS_ELEMENTS // max(1, int(np.prod(s0.shape[1:]))))
    if rows >= s0.shape[0]:
        return form(tokens, s0, scale)
    parts = [slice(b, b + rows) for b in range(0, s0.shape[0], rows)]
    done = [form(tokens.rows(part), s0[part], scale) for part in parts]
    return Result(np.concatenate([one.o for one in done]), np.concatenate([one.s for one in done]))


def packed(form: Form, tokens: Tokens, s0: Real, offsets: Sequence[int], scale: float) -> Result:
    """Sequences of different lengths one behind the other in one batch row: sequence n has the tokens from offsets[n]
    to offsets[n + 1] and starts from s0[n]."""
    spans = list(itertools.pairwise(offsets))
    done = [form(tokens.between(a, b), s0[n : n + 1], scale) for n, (a, b) in enumerate(spans)]
    return Result(np.concatenate([one.o for one in done], axis=1), np.concatenate([one.s for one in done]))


def _chunk(tokens: Tokens, s0: Real, scale: float) -> Result:
    """Heads come before tokens in here: [B,H,T,·]."""
    q, k, v, g = (np.swapaxes(x, 1, 2) for x in (tokens.q, tokens.k, tokens.v, tokens.g))
    beta = np.swapaxes(tokens.beta, 1, 2)[..., None]
    total = np.cumsum(g, axis=2)
    pairs = np.tri(k.shape[2], dtype=bool)[..., None]
    gaps = np.where(pairs, total[:, :, :, None] - total[:, :, None], -np.inf)
    decayed_keys = np.exp(gaps) * k[:, :, None]
    lower = np.tril(beta * np.einsum("bhic,bhijc->bhij", k, decayed_keys), -1)
    values = np.linalg.solve(np.eye(k.shape[2]) + lower, beta * (v - (k * np.exp(total)) @ s0))
    reads = np.einsum("bhic,bhijc->bhij", q, decayed_keys)
    out = scale * ((q * np.exp(total)) @ s0 + reads @ values)
    last = total[:, :, -1:]
    state = np.exp(last).swapaxes(2, 3) * s0 + (k * np.exp(last - total)).swapaxes(2, 3) @ values
    return Result(np.swapaxes(out, 1, 2), state)


def _read(state: Real, by: Real) -> Real:
    """Σ_k state[k, :]·by[k], one row after another."""
    rows = state * by[..., None]
    return np.asarray(np.add.accumulate(rows, axis=-2)[..., -1, :])


def _sigmoid(x: F64) -> F64:
    return np.asarray(np.exp(-np.logaddexp(0.0, -x)))
