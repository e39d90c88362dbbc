"""Bugs of a single access: out of bounds, misaligned, never written, not written at all."""

from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.mutants.mutant import Mutant, reaches_out
from kernel_lab.ptx.report import Kind

_TAIL = {"N": 1000}
_GEMM_TAIL = {"M": 37, "N": 41, "K": 19}
_TENSOR = {"M": 64, "N": 64, "K": 96}
_KDA_TAIL = {"B": 1, "T": 21, "H": 1, "K": 37, "V": 21}

_BOUNDS = (
    reaches_out(
        "no_tail_guard",
        "the last CTA's threads read and write past the end",
        catalogue.VECTOR_ADD,
        (("if (n < N)", "if (true)"),),
        _TAIL,
    ),
    reaches_out(
        "tail_guard_off_by_one",
        "<= where < was meant: one element too many",
        catalogue.VECTOR_ADD,
        (("if (n < N)", "if (n <= N)"),),
        _TAIL,
    ),
    reaches_out(
        "gemm_unguarded_loads",
        "rows past the last are read",
        catalogue.GEMM,
        (("top + row < M && depth + tx < K ?", "depth + tx < K ?"),),
        _GEMM_TAIL,
    ),
    reaches_out(
        "gemm_unguarded_stores",
        "rows past the last are written",
        catalogue.GEMM,
        (("if (row < M && column < N)", "if (column < N)"),),
        _GEMM_TAIL,
    ),
    reaches_out(
        "attention_unguarded_query",
        "queries past the last are read",
        catalogue.ATTENTION,
        (("query < T ? q[", "true ? q["),),
        {"H": 1, "T": 45},
    ),
    reaches_out(
        "gemm_f16_unguarded_copy",
        "cp.async copies rows past the last",
        catalogue.GEMM_F16,
        (("bool there = row < rows && column < columns;\n    const", "bool there = column < columns;\n    const"),),
        {"M": 37, "N": 64, "K": 32},
    ),
    reaches_out(
        "shared_index_past_the_end",
        "bins are counted from one in an array that starts at zero",
        catalogue.HISTOGRAM,
        (("atomicAdd(&mine[x[n]], 1u)", "atomicAdd(&mine[x[n] + 1], 1u)"),),
        {"N": 3000, "BINS": 37},
    ),
    Mutant(
        "writes_its_input",
        "scratch values are kept in an input buffer",
        catalogue.VECTOR_ADD,
        (("y[n] = a[n] + b[n];", "y[n] = a[n] + b[n];\n    ((float *)a)[n] = 0.0f;"),),
        Kind.WRITE_TO_INPUT,
        "bounds",
        _TAIL,
    ),
)

_ALIGNMENT = (
    Mutant(
        "misaligned_float4",
        "rows that do not start on 16 bytes are read as float4",
        catalogue.SILU_MUL,
        (("if (I % 4 == 0 && addresses % 16 == 0) {\n    if (i < I)", "if (i + 4 <= I) {\n    if (addresses != 0)"),),
        Kind.MISALIGNED,
        "alignment",
        {"T": 2, "I": 1022},
    ),
    Mutant(
        "misaligned_matrix_rows",
        "padding that keeps banks apart but breaks the 16 bytes of ldmatrix and cp.async",
        catalogue.GEMM_F16,
        (("#define A_STRIDE (DEPTH + 8)", "#define A_STRIDE (DEPTH + 4)"),),
        Kind.MISALIGNED,
        "alignment",
        _TENSOR,
    ),
)

_UNINITIALISED = (
    Mutant(
        "reads_its_output",
        "+= into a buffer that nobody set to zero",
        catalogue.VECTOR_ADD,
        (("y[n] = a[n] + b[n];", "y[n] += a[n] + b[n];"),),
        Kind.UNINITIALISED_GLOBAL,
        "uninitialised_global",
        _TAIL,
    ),
    Mutant(
        "unwritten_shared_read",
        "threads without an element leave their word of shared memory as it was",
        catalogue.REDUCE_SUM,
        (("  partial[thread] = sum;", "  if (thread < N) {\n    partial[thread] = sum;\n  }"),),
        Kind.UNINITIALISED_SHARED,
        "uninitialised_shared",
        {"N": 100},
    ),
    Mutant(
        "bins_not_cleared",
        "shared memory is taken to start at zero",
        catalogue.HISTOGRAM,
        (
            ("mine[bin] = 0;", "mine[0] = 0;"),
            (
                "bin = threadIdx.x; bin < BINS; bin += blockDim.x) {\n    mine[0]",
                "bin = threadIdx.x; bin < 1; bin += blockDim.x) {\n    mine[0]",
            ),
        ),
        Kind.UNINITIALISED_SHARED,
        "uninitialised_shared",
        {"N": 3000, "BINS": 37},
    ),
    Mutant(
        "tile_not_filled",
        "the loading loop stops eight rows early",
        catalogue.TRANSPOSE,
        (("row < TILE; row += 8) {\n    if (top", "row < TILE - 8; row += 8) {\n    if (top"),),
        Kind.UNINITIALISED_SHARED,
        "uninitialised_shared",
        {"M": 64, "N": 32},
    ),
    Mutant(
        "register_never_set",
        "inline assembly adds a register that nothing wrote",
        catalogue.VECTOR_ADD,
        (
            (
                "y[n] = a[n] + b[n];",
                'float s = a[n];\n    asm("{ .reg .f32 r; add.f32 %0, %0, r; }" : "+f"(s));\n    y[n] = s + b[n];',
            ),
        ),
        Kind.UNINITIALISED_REGISTER,
        "uninitialised_register",
        _TAIL,
    ),
    Mutant(
        "local_array_half_written",
        "a local array is read where it was not written",
        catalogue.VECTOR_ADD,
        (
            (
                "y[n] = a[n] + b[n];",
                "float kept[4];\n    kept[n % 2] = a[n];\n    y[n] = kept[n % 3] + b[n];",
            ),
        ),
        Kind.UNINITIALISED_LOCAL,
        "uninitialised_local",
        _TAIL,
    ),
)

_COVERAGE = (
    Mutant(
        "missing_last_element",
        "< N - 1 where < N was meant",
        catalogue.VECTOR_ADD,
        (("if (n < N)", "if (n < N - 1)"),),
        Kind.UNCOVERED_OUTPUT,
        "output_coverage",
        _TAIL,
    ),
    Mutant(
        "missing_tail_chunk",
        "only whole chunks are done: the last five tokens get no output",
        catalogue.KDA_CHUNKED,
        (("start < T; start += CHUNK", "start + CHUNK <= T; start += CHUNK"),),
        Kind.UNCOVERED_OUTPUT,
        "output_coverage",
        _KDA_TAIL,
    ),
    Mutant(
        "state_not_returned",
        "the last row of the state stays in a register",
        catalogue.KDA_RECURRENT,
        (("    if (row < K && column < V) {\n      s[", "    if (row < K - 1 && column < V) {\n      s["),),
        Kind.UNCOVERED_OUTPUT,
        "output_coverage",
        _KDA_TAIL,
    ),
)

MEMORY = (
    *_BOUNDS,
    *_ALIGNMENT,
    *_UNINITIALISED,
    *_COVERAGE,
)
