"""The float64 references agree with other ways to compute the same, and their bounds refuse what is wrong."""

import numpy as np
import pytest

from kernel_lab.ptx.kernels import catalogue, references
from kernel_lab.ptx.kernels.problem import Kernel
from kernel_lab.ptx.kernels.references import F64, Array, Arrays, Expected


def chunked_kda(inputs: Arrays, b: int, h: int, scale: float, chunk: int) -> tuple[F64, F64]:
    """(o, final state) of one head by the chunked form of arXiv 2510.26692, with pairwise decays."""
    q, k, v, g = (inputs[name][b, :, h].astype(np.float64) for name in "qkvg")
    beta, state = inputs["beta"][b, :, h].astype(np.float64), inputs["s0"][b, h].astype(np.float64)
    parts = []
    for start in range(0, len(q), chunk):
        here = slice(start, start + chunk)
        total = np.cumsum(g[here], axis=0)
        decay = np.exp(np.minimum(total[:, None] - total[None, :], 0.0))
        lower = beta[here, None] * np.tril(np.einsum("ic,ijc,jc->ij", k[here], decay, k[here]), -1)
        solved = np.linalg.solve(np.eye(len(lower)) + lower, np.diag(beta[here]))
        new = solved @ (v[here] - (k[here] * np.exp(total)) @ state)
        mixed = np.tril(np.einsum("ic,ijc,jc->ij", q[here], decay, k[here]))
        parts.append(scale * ((q[here] * np.exp(total)) @ state + mixed @ new))
        state = np.exp(total[-1])[:, None] * state + (k[here] * np.exp(total[-1] - total)).T @ new
    return np.concatenate(parts), state


def test_recurrent_and_chunked_delta_attention_are_the_same() -> None:
    problem = catalogue.KDA_RECURRENT.problem({"B": 2, "T": 37, "H": 2, "K": 24, "V": 16}, seed=1)
    expected = problem.expected()
    for b, h in np.ndindex(2, 2):
        out, state = chunked_kda(problem.inputs, b, h, problem.kernel.scalars["scale"], chunk=16)
        np.testing.assert_allclose(out, expected["o"].exact[b, :, h], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state, expected["s"].exact[b, h], rtol=0, atol=1e-12)


def test_attention_is_a_plain_softmax_over_the_past() -> None:
    problem = catalogue.ATTENTION.problem({"H": 1, "T": 9}, seed=1)
    q, k, v = (problem.inputs[name][0].astype(np.float64) for name in "qkv")
    for t in range(9):
        powers = np.exp(0.125 * (k[: t + 1] @ q[t]))
        np.testing.assert_allclose(problem.expected()["o"].exact[0, t], powers @ v[: t + 1] / powers.sum(), atol=1e-14)


@pytest.mark.parametrize("kernel", catalogue.KERNELS, ids=lambda kernel: kernel.name)
def test_the_exact_result_is_within_its_bound_and_its_double_is_not(kernel: Kernel) -> None:
    problem = kernel.problem(kernel.sizes[0], seed=2)
    right = {name: _as_output(kernel, name, expected) for name, expected in problem.expected().items()}
    assert problem.worst_error(right) <= 1.0
    for name in right:
        doubled = _as_output(kernel, name, Expected(2.0 * problem.expected()[name].exact, np.zeros(())))
        assert problem.worst_error({**right, name: doubled}) > 1.0


def test_what_is_no_number_is_never_within_a_bound() -> None:
    expected = Expected(np.zeros(2), np.full(2, np.inf))
    assert expected.worst(np.array([0.0, np.nan])) == np.inf


def test_bf16_rounds_to_nearest_even() -> None:
    ulp = np.float32(2.0**-7)
    values = np.array([1.0, 1 + ulp / 2, 1 + 3 * ulp / 2, 1 + ulp / 2 + 2.0**-20, -2.5], np.float32)
    rounded = references.from_bf16(references.to_bf16(values))
    np.testing.assert_array_equal(rounded, np.array([1.0, 1.0, 1 + 2 * ulp, 1 + ulp, -2.5], np.float32))


def _as_output(kernel: Kernel, name: str, expected: Expected) -> Array:
    (dtype,) = {pointer.dtype for pointer in kernel.pointers if pointer.name == name}
    return references.to_bf16(expected.exact) if dtype is np.uint16 else expected.exact.astype(dtype)
