"""Our tiled gemm in numba's CUDA simulator: prints the seconds that one launch took.

    NUMBA_ENABLE_CUDASIM=1 python -m benchmarks.numba_gemm '{"M": 128, "N": 128, "K": 128}'

The kernel is that of kernel_lab/ptx/kernels/cuda/gemm.cu, line by line.
"""

import json
import sys
import time

import numpy as np
from numba import cuda, float32

from kernel_lab.ptx.kernels import catalogue

TILE = 32
DEPTH = 16


@cuda.jit
def gemm(a, b, c, m, n, k):  # type: ignore[no-untyped-def]  # numba reads the types itself
    a_tile = cuda.shared.array((TILE, DEPTH), float32)
    b_tile = cuda.shared.array((DEPTH, TILE), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    top, left = cuda.blockIdx.y * TILE, cuda.blockIdx.x * TILE
    s00 = s01 = s10 = s11 = float32(0)
    for depth in range(0, k, DEPTH):
        for half in range(2):
            row, column = ty + 16 * half, tx + 16 * half
            a_there = top + row < m and depth + tx < k
            b_there = depth + ty < k and left + column < n
            a_tile[row, tx] = a[top + row, depth + tx] if a_there else float32(0)
            b_tile[ty, column] = b[depth + ty, left + column] if b_there else float32(0)
        cuda.syncthreads()
        for d in range(DEPTH):
            a0, a1 = a_tile[ty, d], a_tile[ty + 16, d]
            b0, b1 = b_tile[d, tx], b_tile[d, tx + 16]
            s00 += a0 * b0
            s01 += a0 * b1
            s10 += a1 * b0
            s11 += a1 * b1
        cuda.syncthreads()
    for i, j, value in ((0, 0, s00), (0, 1, s01), (1, 0, s10), (1, 1, s11)):
        row, column = top + ty + 16 * i, left + tx + 16 * j
        if row < m and column < n:
            c[row, column] = value


def main() -> int:
    """The exit status."""
    problem = catalogue.GEMM.problem(json.loads(sys.argv[1]))
    (m, n, k), launch = (problem.axes[axis] for axis in "MNK"), problem.launch()
    product = np.zeros((m, n), np.float32)
    started = time.perf_counter()
    gemm[launch.grid, launch.block](problem.inputs["a"], problem.inputs["b"], product, m, n, k)
    elapsed = time.perf_counter() - started
    if problem.worst_error({"c": product}) > 1.0:
        raise RuntimeError("the simulator's product is wrong")
    print(elapsed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
