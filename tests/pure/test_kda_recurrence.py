"""The recurrent and the chunked form of KDA agree in float64, whatever the heads, lengths, states and gates."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel_lab.workloads import kda_recurrence
from kernel_lab.workloads.kda_recurrence import (
    CHUNK,
    F64,
    GATE_LIMIT,
    Tokens,
    bounded_gate,
    by_rows,
    chunked,
    normalised,
    packed,
    plain_gate,
    recurrent,
    softplus_gate,
)

AGREEMENT = 1e-11
"""Sums of the strong gates pass 8,192, where float64 is 1.8e-12 apart, and the seeds of one test are drawn anew."""


def gated(gate: str, shape: tuple[int, ...], rng: np.random.Generator) -> F64:
    x, heads, channels = rng.standard_normal(shape), shape[-2], shape[-1]
    a_log, dt_bias = np.log(rng.uniform(1.0, 16.0, (heads, 1))), rng.standard_normal((heads, channels))
    match gate:
        case "softplus":
            return softplus_gate(x, a_log, dt_bias)
        case "strong softplus":
            return softplus_gate(20.0 * x, a_log, dt_bias)
        case "bounded":
            return bounded_gate(x, a_log, dt_bias)
        case "bounded at its limit":
            return bounded_gate(np.full(shape, 100.0), a_log, dt_bias)
        case _:
            return plain_gate(x)


GATES = ("softplus", "strong softplus", "bounded", "bounded at its limit", "plain")


def drawn(
    gate: str = "softplus",
    *,
    batch: int = 1,
    length: int = 100,
    heads: int = 2,
    groups: int = 1,
    keys: int = 12,
    values: int = 7,
    seed: int = 0,
) -> Tokens:
    rng = np.random.default_rng(seed)
    narrow, wide = (batch, length, heads), (batch, length, heads * groups)
    return Tokens(
        q=normalised(rng.standard_normal((*narrow, keys))),
        k=normalised(rng.standard_normal((*narrow, keys))),
        v=rng.standard_normal((*wide, values)),
        g=gated(gate, (*wide, keys), rng),
        beta=rng.uniform(0.0, 1.0, wide),
    )


def state_for(tokens: Tokens, rows: int, seed: int = 1) -> F64:
    shape = (rows, tokens.v.shape[2], tokens.q.shape[-1], tokens.v.shape[-1])
    return np.random.default_rng(seed).standard_normal(shape)


def assert_agree(one: np.ndarray, other: np.ndarray) -> None:
    assert one.shape == other.shape
    assert np.max(np.abs(one - other), initial=0.0) <= AGREEMENT * max(1.0, np.max(np.abs(other), initial=0.0))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("length", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_both_forms_agree_at_every_gate_and_length_from_a_state_that_is_not_zero(gate: str, length: int) -> None:
    tokens = drawn(gate, length=length)
    s0 = state_for(tokens, 1)
    step_by_step, in_chunks = recurrent(tokens, s0, 0.3), chunked(tokens, s0, 0.3)
    assert np.isfinite(step_by_step.o).all()
    assert_agree(in_chunks.o, step_by_step.o)
    assert_agree(in_chunks.s, step_by_step.s)


@settings(max_examples=25, deadline=None)
@given(
    gate=st.sampled_from(GATES),
    batch=st.integers(1, 3),
    length=st.integers(0, 150),
    heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    keys=st.integers(1, 20),
    values=st.integers(1, 20),
    seed=st.integers(0, 2**32),
)
def test_both_forms_agree_over_grouped_heads_and_keys_that_differ_from_values(
    gate: str, batch: int, length: int, heads: int, groups: int, keys: int, values: int, seed: int
) -> None:
    tokens = drawn(gate, batch=batch, length=length, heads=heads, groups=groups, keys=keys, values=values, seed=seed)
    s0 = state_for(tokens, batch, seed)
    step_by_step, in_chunks = recurrent(tokens, s0, 1.0), chunked(tokens, s0, 1.0)
    assert_agree(in_chunks.o, step_by_step.o)
    assert_agree(in_chunks.s, step_by_step.s)


@pytest.mark.parametrize("form", [recurrent, chunked])
def test_packed_sequences_are_each_what_they_are_alone(form: type) -> None:
    lengths = (130, 0, 1, 64, 27)
    offsets = [0, *np.cumsum(lengths).tolist()]
    tokens = drawn(length=offsets[-1], groups=2)
    s0 = state_for(tokens, len(lengths))
    together = packed(form, tokens, s0, offsets, 0.5)
    for n, (first, past) in enumerate(itertools.pairwise(offsets)):
        alone = recurrent(tokens.between(first, past), s0[n : n + 1], 0.5)
        assert_agree(together.o[:, first:past], alone.o)
        assert_agree(together.s[n : n + 1], alone.s)


@pytest.mark.parametrize("form", [recurrent, chunked])
def test_the_state_handed_on_makes_halves_a_whole(form: type) -> None:
    tokens = drawn(length=150)
    s0 = state_for(tokens, 1)
    whole, first = form(tokens, s0, 1.0), form(tokens.between(0, 77), s0, 1.0)
    second = form(tokens.between(77, 150), first.s, 1.0)
    assert_agree(np.concatenate([first.o, second.o], axis=1), whole.o)
    assert_agree(second.s, whole.s)


def test_a_batch_computed_in_parts_is_what_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = drawn(batch=5, length=9)
    s0 = state_for(tokens, 5)
    whole = recurrent(tokens, s0, 1.0)
    monkeypatch.setattr(kda_recurrence, "ROWS_ELEMENTS", 2 * s0[0].size)
    in_parts = by_rows(recurrent, tokens, s0, 1.0)
    assert np.array_equal(in_parts.o, whole.o)
    assert np.array_equal(in_parts.s, whole.s)


def test_a_head_of_a_group_is_that_head_with_its_own_copy_of_q_and_k() -> None:
    tokens = drawn(groups=3)
    s0 = state_for(tokens, 1)
    grouped, apart = recurrent(tokens, s0, 1.0), recurrent(tokens.ungrouped(), s0, 1.0)
    assert np.array_equal(grouped.o, apart.o)
    assert np.array_equal(tokens.ungrouped().q[:, :, :3], np.repeat(tokens.q[:, :, :1], 3, axis=2))


def test_predicting_from_the_undecayed_state_is_another_operation() -> None:
    tokens = drawn(length=1)
    s0 = state_for(tokens, 1)
    wrong = tokens.beta[:, 0, :, None] * (tokens.v[:, 0] - np.einsum("bhkv,bhk->bhv", s0, tokens.k[:, 0]))
    state = np.exp(tokens.g[:, 0])[..., None] * s0 + tokens.k[:, 0][..., None] * wrong[..., None, :]
    assert np.max(np.abs(state - recurrent(tokens, s0, 1.0).s)) > 0.01


def test_the_gates_stay_at_or_below_zero_and_the_bounded_one_reaches_its_limit() -> None:
    rng = np.random.default_rng(3)
    for gate in GATES:
        assert (gated(gate, (1, 50, 2, 8), rng) <= 0.0).all()
    assert gated("bounded", (1, 500, 2, 8), rng).min() >= GATE_LIMIT
    assert np.all(gated("bounded at its limit", (1, 5, 2, 8), rng) == GATE_LIMIT)
    assert gated("strong softplus", (1, 500, 2, 8), rng).min() < -200.0
