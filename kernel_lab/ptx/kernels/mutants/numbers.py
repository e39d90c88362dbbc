"""Bugs that only a comparison sees."""

from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.mutants.mutant import wrong_numbers

_TAIL = {"N": 1000}
_TENSOR = {"M": 64, "N": 64, "K": 96}
_KDA_TAIL = {"B": 1, "T": 21, "H": 1, "K": 37, "V": 21}

NUMBERS = (
    wrong_numbers(
        "swapped_layout",
        "the state is read as [V,K]: invisible while K = V",
        catalogue.KDA_RECURRENT,
        (("s0[state_at + row * V]", "s0[state_at - column + column * K + row]"),),
        _KDA_TAIL,
    ),
    wrong_numbers(
        "swapped_keys_and_values",
        "keys and values change places in shared memory",
        catalogue.ATTENTION,
        (
            ("k[head + start", "X[head + start"),
            ("v[head + start", "k[head + start"),
            ("X[head + start", "v[head + start"),
        ),
        {"H": 1, "T": 45},
    ),
    wrong_numbers(
        "predicts_before_decay",
        "the prediction comes from the state before its decay: 21 % off",
        catalogue.KDA_CHUNKED,
        (("predicted += keys[i][c] * __expf(gates[i][c]) * state[c][n]", "predicted += keys[i][c] * state[c][n]"),),
        _KDA_TAIL,
    ),
    wrong_numbers(
        "swapped_fragments",
        "the two halves of the right operand change places",
        catalogue.GEMM_BF16,
        (
            (
                "b_part[j / 2][j % 2 * 2], b_part[j / 2][j % 2 * 2 + 1]",
                "b_part[j / 2][j % 2 * 2 + 1], b_part[j / 2][j % 2 * 2]",
            ),
        ),
        _TENSOR,
    ),
    wrong_numbers(
        "tile_not_transposed",
        "the tile is read as it was written",
        catalogue.TRANSPOSE,
        (("= tile[threadIdx.x][row]", "= tile[row][threadIdx.x]"),),
        {"M": 64, "N": 32},
    ),
)
