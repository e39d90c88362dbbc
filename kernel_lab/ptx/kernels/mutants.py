"""Broken kernels that the executor must catch: the positive controls of its checkers.

Each is one of our kernels with a few words of its source changed, as a person or a model would get it wrong. Most of
them compute right numbers in lock step, so that only a checker sees them; where only the numbers are wrong,
`caught_by` is COMPARISON.
"""

from dataclasses import dataclass
from typing import Final, Literal

from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.golden import cuda_source
from kernel_lab.ptx.kernels.problem import Kernel
from kernel_lab.ptx.kernels.references import Axes
from kernel_lab.ptx.report import Kind
from schemas.faults import Bug

COMPARISON: Final = "comparison"

_ENTRY: Final = 'extern "C" __global__ void '


@dataclass(frozen=True)
class Mutant:
    """A kernel with edits to its source, the size that shows the bug, and who must see it.

    `switch` is the field of Checks that looks for `caught_by`: with it off the verdict is pass. It is None where the
    verdict is a timeout or where only the numbers are wrong.
    """

    name: str
    bug: str
    kernel: Kernel
    edits: tuple[tuple[str, str], ...]
    caught_by: Kind | Literal["comparison"]
    switch: str | None
    axes: Axes

    def source(self) -> str:
        """The edited source with no entry but this kernel's. Raises Bug when an edit does not match exactly once."""
        text = cuda_source(self.kernel.source)
        for old, new in self.edits:
            if text.count(old) != 1:
                raise Bug(f"mutant {self.name}: {old!r} is {text.count(old)} times in {self.kernel.source}.cu")
            text = text.replace(old, new)
        shared, *entries = text.split(_ENTRY)
        return shared + "".join(_ENTRY + entry for entry in entries if entry.startswith(f"{self.kernel.entry}("))


def _races(name: str, bug: str, kernel: Kernel, edits: tuple[tuple[str, str], ...], axes: Axes) -> Mutant:
    return Mutant(name, bug, kernel, edits, Kind.SHARED_RACE, "shared_race", axes)


def _reaches_out(name: str, bug: str, kernel: Kernel, edits: tuple[tuple[str, str], ...], axes: Axes) -> Mutant:
    return Mutant(name, bug, kernel, edits, Kind.OUT_OF_BOUNDS, "bounds", axes)


def _wrong_numbers(name: str, bug: str, kernel: Kernel, edits: tuple[tuple[str, str], ...], axes: Axes) -> Mutant:
    return Mutant(name, bug, kernel, edits, COMPARISON, None, axes)


_TAIL = {"N": 1000}
_GEMM_TAIL = {"M": 37, "N": 41, "K": 19}
_GEMM_WHOLE = {"M": 32, "N": 32, "K": 48}
_TENSOR = {"M": 64, "N": 64, "K": 96}
_KDA_TAIL = {"B": 1, "T": 21, "H": 1, "K": 37, "V": 21}

_BOUNDS = (
    _reaches_out(
        "no_tail_guard",
        "the last CTA's threads read and write past the end",
        catalogue.VECTOR_ADD,
        (("if (n < N)", "if (true)"),),
        _TAIL,
    ),
    _reaches_out(
        "tail_guard_off_by_one",
        "<= where < was meant: one element too many",
        catalogue.VECTOR_ADD,
        (("if (n < N)", "if (n <= N)"),),
        _TAIL,
    ),
    _reaches_out(
        "gemm_unguarded_loads",
        "rows past the last are read",
        catalogue.GEMM,
        (("top + row < M && depth + tx < K ?", "depth + tx < K ?"),),
        _GEMM_TAIL,
    ),
    _reaches_out(
        "gemm_unguarded_stores",
        "rows past the last are written",
        catalogue.GEMM,
        (("if (row < M && column < N)", "if (column < N)"),),
        _GEMM_TAIL,
    ),
    _reaches_out(
        "attention_unguarded_query",
        "queries past the last are read",
        catalogue.ATTENTION,
        (("query < T ? q[", "true ? q["),),
        {"H": 1, "T": 45},
    ),
    _reaches_out(
        "gemm_f16_unguarded_copy",
        "cp.async copies rows past the last",
        catalogue.GEMM_F16,
        (("bool there = row < rows && column < columns;\n    const", "bool there = column < columns;\n    const"),),
        {"M": 37, "N": 64, "K": 32},
    ),
    _reaches_out(
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

_SHARED_RACES = (
    _races(
        "gemm_no_barrier_after_write",
        "tiles are read before all of them is there (RAW)",
        catalogue.GEMM,
        (("    __syncthreads();  // both tiles are there\n", ""),),
        _GEMM_WHOLE,
    ),
    _races(
        "gemm_no_barrier_after_read",
        "tiles are overwritten while others read them (WAR)",
        catalogue.GEMM,
        (("    __syncthreads();  // and were read by all\n", ""),),
        _GEMM_WHOLE,
    ),
    _races(
        "softmax_no_barrier_after_read",
        "the words of the first reduction are used again too early (WAR)",
        catalogue.SOFTMAX,
        (("  __syncthreads();  // and were read by all\n", ""),),
        {"R": 2, "C": 1021},
    ),
    _races(
        "softmax_no_barrier_after_write",
        "the sums of other warps are read before they are there (RAW)",
        catalogue.SOFTMAX,
        (("  __syncthreads();  // the sums are there\n", ""),),
        {"R": 2, "C": 1021},
    ),
    _races(
        "rms_norm_no_barrier",
        "the scale is read before warp 0 has written it",
        catalogue.RMS_NORM,
        (("  __syncthreads();\n  for (int64_t h", "  for (int64_t h"),),
        {"T": 2, "H": 1021},
    ),
    _races(
        "transpose_no_barrier",
        "columns of the tile are read before other warps wrote their rows",
        catalogue.TRANSPOSE,
        (("  __syncthreads();\n", ""),),
        {"M": 64, "N": 32},
    ),
    _races(
        "tree_no_barrier",
        "a level of the tree starts before the one above is done",
        catalogue.REDUCE_SUM,
        (
            (
                "      partial[thread] += partial[thread + stride];\n    }\n    __syncthreads();",
                "      partial[thread] += partial[thread + stride];\n    }",
            ),
        ),
        {"N": 4099},
    ),
    _races(
        "warp_synchronous_read_after_write",
        "a warp's last levels without __syncwarp between write and read, as before Volta",
        catalogue.REDUCE_SUM,
        (("      __syncwarp();  // written before a neighbour reads it\n", ""),),
        {"N": 4099},
    ),
    _races(
        "warp_synchronous_write_after_read",
        "a warp's last levels without __syncwarp between read and write, as before Volta",
        catalogue.REDUCE_SUM,
        (("      __syncwarp();  // read before a neighbour overwrites it\n", ""),),
        {"N": 4099},
    ),
    _races(
        "non_atomic_bins",
        "threads of one CTA count in shared memory without atomics",
        catalogue.HISTOGRAM,
        (("atomicAdd(&mine[x[n]], 1u)", "mine[x[n]] += 1"),),
        {"N": 3000, "BINS": 37},
    ),
    _races(
        "attention_no_barrier_after_read",
        "the next keys overwrite those that others still read (WAR)",
        catalogue.ATTENTION,
        (("      top = new_top;\n    }\n    __syncthreads();", "      top = new_top;\n    }"),),
        {"H": 1, "T": 64},
    ),
    _races(
        "kda_no_barrier_after_read",
        "the next steps overwrite those that others still read (WAR)",
        catalogue.KDA_RECURRENT,
        (
            (
                "        o[token * V + column] = out;\n      }\n    }\n    __syncthreads();",
                "        o[token * V + column] = out;\n      }\n    }",
            ),
        ),
        _KDA_TAIL,
    ),
    _races(
        "kda_chunked_no_barrier_after_solve",
        "the solved rows are read before other warps solved their columns",
        catalogue.KDA_CHUNKED,
        (
            (
                "        news[i][threadIdx.x] -= known;\n      }\n    }\n    __syncthreads();",
                "        news[i][threadIdx.x] -= known;\n      }\n    }",
            ),
        ),
        _KDA_TAIL,
    ),
    _races(
        "gemm_f16_no_barrier_after_wait",
        "each thread waits for its own copies only, then reads those of others",
        catalogue.GEMM_F16,
        (("    __syncthreads();  // this slab is there for all\n", ""),),
        _TENSOR,
    ),
    _races(
        "gemm_f16_no_barrier_after_read",
        "the next copies overwrite the buffer that slower warps still read",
        catalogue.GEMM_F16,
        (("    __syncthreads();  // and was read by all\n", ""),),
        _TENSOR,
    ),
    _races(
        "handoff_without_taken",
        "the writer does not wait until its last tile was taken",
        catalogue.HANDOFF,
        (("        wait(taken);", "        arrive(taken);"),),
        {"N": 512},
    ),
    _races(
        "pipeline_without_empty",
        "the producer overwrites a stage that the consumers have not given back",
        catalogue.PIPELINE,
        (("      barrier_wait(&empty[stage], (tile / STAGES & 1) ^ 1);", "     "),),
        {"N": 1024},
    ),
    _races(
        "pipeline_consumer_phase",
        "consumers wait for the phase before: each tile is read one round too early",
        catalogue.PIPELINE,
        (("barrier_wait(&full[stage], tile / STAGES & 1);", "barrier_wait(&full[stage], (tile / STAGES & 1) ^ 1);"),),
        {"N": 1024},
    ),
)

_GLOBAL_RACES = (
    Mutant(
        "non_atomic_accumulation",
        "CTAs add their counts to the same words without atomics",
        catalogue.HISTOGRAM,
        (("atomicAdd(&counts[bin], mine[bin])", "counts[bin] += mine[bin]"),),
        Kind.GLOBAL_RACE,
        "global_race",
        {"N": 3000, "BINS": 37},
    ),
    Mutant(
        "reads_unfinished_counts",
        "each CTA looks at the totals while others still add to them",
        catalogue.HISTOGRAM,
        (
            (
                "    atomicAdd(&counts[bin], mine[bin]);",
                "    atomicAdd(&counts[bin], mine[bin] + (counts[bin] == 0xffffffffu ? 1 : 0));",
            ),
        ),
        Kind.GLOBAL_RACE,
        "global_race",
        {"N": 3000, "BINS": 37},
    ),
    Mutant(
        "overlapping_tiles",
        "tiles of neighbouring CTAs share a column, which both write with the same value",
        catalogue.GEMM,
        (("left = (int64_t)blockIdx.x * TILE;", "left = (int64_t)blockIdx.x * (TILE - 1);"),),
        Kind.GLOBAL_RACE,
        "global_race",
        {"M": 32, "N": 63, "K": 16},
    ),
)

_SYNCHRONISATION = (
    Mutant(
        "barrier_in_a_branch",
        "only the threads that add reach the barrier of their level: it completes because the others have left",
        catalogue.REDUCE_SUM,
        (
            (
                "      partial[thread] += partial[thread + stride];\n    }\n    __syncthreads();",
                "      partial[thread] += partial[thread + stride];\n      __syncthreads();\n    }",
            ),
        ),
        Kind.DIVERGENT_BARRIER,
        "divergent_barrier",
        {"N": 4099},
    ),
    Mutant(
        "barrier_on_both_sides_of_a_branch",
        "the lanes of a warp wait at two different barriers, which happen to have the same number",
        catalogue.SOFTMAX,
        (
            (
                "    partial[warp] = top;\n  }\n  __syncthreads();  // the maxima are there",
                "    partial[warp] = top;\n    __syncthreads();\n  } else {\n    __syncthreads();\n  }",
            ),
        ),
        Kind.DIVERGENT_BARRIER,
        "divergent_barrier",
        {"R": 2, "C": 1021},
    ),
    Mutant(
        "count_of_half_a_warp",
        "a named barrier is told a number of threads that is no number of warps",
        catalogue.HANDOFF,
        (
            (
                'asm volatile("bar.arrive %0, 128;" ::"r"(barrier)',
                'asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(blockDim.x - 16)',
            ),
            (
                'asm volatile("bar.sync %0, 128;" ::"r"(barrier)',
                'asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(blockDim.x - 16)',
            ),
        ),
        Kind.BARRIER_MISUSE,
        "barrier_misuse",
        {"N": 512},
    ),
    Mutant(
        "shuffle_under_divergence",
        "a full-mask shuffle in a branch that eight lanes take",
        catalogue.RMS_NORM,
        (
            (
                "  if (warp == 0) {\n    float total = warp_sum(lane < WARPS ? partial[lane] : 0.0f);",
                "  if (threadIdx.x < WARPS) {\n    float total = warp_sum(partial[lane]);",
            ),
        ),
        Kind.INACTIVE_LANES,
        "inactive_lanes",
        {"T": 2, "H": 1021},
    ),
    Mutant(
        "shuffle_in_the_tail",
        "a full-mask shuffle in a loop whose last round has fewer lanes",
        catalogue.SOFTMAX,
        (
            (
                "    top = fmaxf(top, row[c]);\n  }\n  top = warp_max(top);",
                "    top = warp_max(fmaxf(top, row[c]));\n  }",
            ),
        ),
        Kind.INACTIVE_LANES,
        "inactive_lanes",
        {"R": 2, "C": 1021},
    ),
)

_ASYNCHRONOUS = (
    Mutant(
        "copy_without_wait",
        "tiles are read with no wait for their copies at all",
        catalogue.GEMM_F16,
        (
            ('      asm volatile("cp.async.wait_group 1;" ::: "memory");\n', ""),
            ('      asm volatile("cp.async.wait_group 0;" ::: "memory");\n', ""),
        ),
        Kind.ASYNC_BEFORE_WAIT,
        "async_before_wait",
        _TENSOR,
    ),
    Mutant(
        "wait_leaves_the_last_copy",
        "the last slab waits as if another were on its way",
        catalogue.GEMM_F16,
        (("cp.async.wait_group 0;", "cp.async.wait_group 1;"),),
        Kind.ASYNC_BEFORE_WAIT,
        "async_before_wait",
        _TENSOR,
    ),
    Mutant(
        "copy_without_commit",
        "copies belong to no group, so waiting for groups does not cover them",
        catalogue.GEMM_BF16,
        (('    asm volatile("cp.async.commit_group;" ::: "memory");\n', ""),),
        Kind.ASYNC_BEFORE_WAIT,
        "async_before_wait",
        _TENSOR,
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

_NEVER_ENDING = (
    Mutant(
        "spins_on_a_flag",
        "a CTA waits for a value that nobody will write",
        catalogue.HISTOGRAM,
        (
            (
                "  int64_t start = (int64_t)blockIdx.x * 1024;",
                "  while (atomicAdd(&counts[0], 0u) != 0xffffffffu) {}\n  int64_t start = (int64_t)blockIdx.x * 1024;",
            ),
        ),
        Kind.STEP_BUDGET,
        None,
        {"N": 3000, "BINS": 37},
    ),
    Mutant(
        "pipeline_producer_phase",
        "the producer waits for a stage to be given back before anybody was given it",
        catalogue.PIPELINE,
        (("(tile / STAGES & 1) ^ 1);  // at first", "tile / STAGES & 1);  // at first"),),
        Kind.STEP_BUDGET,
        None,
        {"N": 1024},
    ),
)

_NUMBERS = (
    _wrong_numbers(
        "swapped_layout",
        "the state is read as [V,K]: invisible while K = V",
        catalogue.KDA_RECURRENT,
        (("s0[state_at + row * V]", "s0[state_at - column + column * K + row]"),),
        _KDA_TAIL,
    ),
    _wrong_numbers(
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
    _wrong_numbers(
        "predicts_before_decay",
        "the prediction comes from the state before its decay: 21 % off",
        catalogue.KDA_CHUNKED,
        (("predicted += keys[i][c] * __expf(gates[i][c]) * state[c][n]", "predicted += keys[i][c] * state[c][n]"),),
        _KDA_TAIL,
    ),
    _wrong_numbers(
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
    _wrong_numbers(
        "tile_not_transposed",
        "the tile is read as it was written",
        catalogue.TRANSPOSE,
        (("= tile[threadIdx.x][row]", "= tile[row][threadIdx.x]"),),
        {"M": 64, "N": 32},
    ),
)

_BULK = (
    Mutant(
        "bulk_without_wait",
        "a bulk copy's destination is read without asking its mbarrier",
        catalogue.BULK_PIPELINE,
        (("    barrier_wait(&full[stage], tile / STAGES & 1);\n", ""),),
        Kind.ASYNC_BEFORE_WAIT,
        "async_before_wait",
        {"N": 2048},
    ),
    Mutant(
        "bulk_expects_too_much",
        "more bytes are expected than will arrive",
        catalogue.BULK_PIPELINE,
        (("arrive_and_expect(&full[tile % STAGES], bytes);", "arrive_and_expect(&full[tile % STAGES], bytes + 16);"),),
        Kind.STEP_BUDGET,
        None,
        {"N": 1024},
    ),
)

MUTANTS = (
    *_BOUNDS,
    *_ALIGNMENT,
    *_UNINITIALISED,
    *_SHARED_RACES,
    *_GLOBAL_RACES,
    *_SYNCHRONISATION,
    *_ASYNCHRONOUS,
    *_COVERAGE,
    *_NEVER_ENDING,
    *_NUMBERS,
    *_BULK,
)
