"""Line 1 of a CUDA candidate says how to launch it, in arithmetic over the axes and nothing else."""

import pytest

from kernel_lab.ptx.kernels.launch_data import BadLaunchData, evaluated, read_launch_data


def test_launch_data_follows_the_axes() -> None:
    source = (
        '// assay: {"grid": ["ceildiv(N, 256)", "max(T // 2, 1)", 1], "block": [256, 1, 1], "shared_bytes": "4*N"}\n'
    )
    assert read_launch_data(source).at({"N": 257, "T": 1}) == ((2, 1, 1), (256, 1, 1), 1028)


def test_shared_memory_is_none_where_nothing_is_said() -> None:
    assert read_launch_data('// assay: {"grid": [1, 1, 1], "block": [32, 1, 1]}').at({}) == ((1, 1, 1), (32, 1, 1), 0)


@pytest.mark.parametrize(
    ("expression", "value"),
    [("N + 1", 8), ("N - 1", 6), ("N * N", 49), ("N // 2", 3), ("N % 4", 3), ("min(N, 3)", 3), ("ceildiv(N, 4)", 2)],
)
def test_every_operator_of_the_contract_is_understood(expression: str, value: int) -> None:
    assert evaluated(expression, {"N": 7}) == value


@pytest.mark.parametrize("expression", ["M", "N / 2", "N ** 9", "open('f')", "N.real", "[N]", "N +", "N // 0", "-N"])
def test_anything_but_arithmetic_over_the_axes_is_refused(expression: str) -> None:
    with pytest.raises(BadLaunchData):
        evaluated(expression, {"N": 7})


@pytest.mark.parametrize(
    "line",
    [
        "extern",
        "// assay: {",
        '// assay: {"grid": [1, 1, 1]}',
        '// assay: {"grid": [1, 1], "block": [1, 1, 1]}',
        '// assay: {"grid": [1, 1, 1.5], "block": [1, 1, 1]}',
    ],
)
def test_unusable_launch_data_is_refused(line: str) -> None:
    with pytest.raises(BadLaunchData, match="line 1"):
        read_launch_data(line)
