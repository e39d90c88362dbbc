"""Bugs of waiting: in the wrong place, too little, or for ever."""

from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.mutants.mutant import Mutant, stands_still
from kernel_lab.ptx.report import Kind

_TENSOR = {"M": 64, "N": 64, "K": 96}

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

_NEVER_ENDING = (
    Mutant(
        "spins_on_a_flag",
        "a CTA waits for a value that nobody will write",
        catalogue.HISTOGRAM,
        (
            (
                "  int64_t start = (int64_t)blockIdx.x * 1024;",
                (
                    "  if (threadIdx.x == 0) {\n    while (atomicAdd(&counts[0], 0u) != 0xffffffffu) {}\n  }\n"
                    "  int64_t start = (int64_t)blockIdx.x * 1024;"
                ),
            ),
        ),
        Kind.STEP_BUDGET,
        None,
        {"N": 3000, "BINS": 37},
    ),
    stands_still(
        "pipeline_producer_phase",
        "the producer waits for a stage to be given back before anybody was given it",
        catalogue.PIPELINE,
        (("(tile / STAGES & 1) ^ 1);  // at first", "tile / STAGES & 1);  // at first"),),
        {"N": 1024},
    ),
    stands_still(
        "pipeline_consumer_phase",
        "consumers wait for the phase before: they read a round too early, or wait for one that never comes",
        catalogue.PIPELINE,
        (("barrier_wait(&full[stage], tile / STAGES & 1);", "barrier_wait(&full[stage], (tile / STAGES & 1) ^ 1);"),),
        {"N": 1024},
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
    stands_still(
        "bulk_expects_too_much",
        "more bytes are expected than will arrive",
        catalogue.BULK_PIPELINE,
        (("arrive_and_expect(&full[tile % STAGES], bytes);", "arrive_and_expect(&full[tile % STAGES], bytes + 16);"),),
        {"N": 1024},
    ),
)

WAITING = (
    *_SYNCHRONISATION,
    *_ASYNCHRONOUS,
    *_NEVER_ENDING,
    *_BULK,
)
