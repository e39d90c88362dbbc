"""Bugs of two accesses with nothing between them."""

from kernel_lab.ptx.kernels import catalogue
from kernel_lab.ptx.kernels.mutants.mutant import Mutant, races
from kernel_lab.ptx.report import Kind

_TAIL = {"N": 1000}
_GEMM_WHOLE = {"M": 32, "N": 32, "K": 48}
_TENSOR = {"M": 64, "N": 64, "K": 96}
_KDA_TAIL = {"B": 1, "T": 21, "H": 1, "K": 37, "V": 21}

_SHARED_RACES = (
    races(
        "gemm_no_barrier_after_write",
        "tiles are read before all of them is there (RAW)",
        catalogue.GEMM,
        (("    __syncthreads();  // both tiles are there\n", ""),),
        _GEMM_WHOLE,
    ),
    races(
        "gemm_no_barrier_after_read",
        "tiles are overwritten while others read them (WAR)",
        catalogue.GEMM,
        (("    __syncthreads();  // and were read by all\n", ""),),
        _GEMM_WHOLE,
    ),
    races(
        "softmax_no_barrier_after_read",
        "the words of the first reduction are used again too early (WAR)",
        catalogue.SOFTMAX,
        (("  __syncthreads();  // and were read by all\n", ""),),
        {"R": 2, "C": 1021},
    ),
    races(
        "softmax_no_barrier_after_write",
        "the sums of other warps are read before they are there (RAW)",
        catalogue.SOFTMAX,
        (("  __syncthreads();  // the sums are there\n", ""),),
        {"R": 2, "C": 1021},
    ),
    races(
        "rms_norm_no_barrier",
        "the scale is read before warp 0 has written it",
        catalogue.RMS_NORM,
        (("  __syncthreads();\n  for (int64_t h", "  for (int64_t h"),),
        {"T": 2, "H": 1021},
    ),
    races(
        "transpose_no_barrier",
        "columns of the tile are read before other warps wrote their rows",
        catalogue.TRANSPOSE,
        (("  __syncthreads();\n", ""),),
        {"M": 64, "N": 32},
    ),
    races(
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
    races(
        "warp_synchronous_read_after_write",
        "a warp's last levels without __syncwarp between write and read, as before Volta",
        catalogue.REDUCE_SUM,
        (("      __syncwarp();  // written before a neighbour reads it\n", ""),),
        {"N": 4099},
    ),
    races(
        "warp_synchronous_write_after_read",
        "a warp's last levels without __syncwarp between read and write, as before Volta",
        catalogue.REDUCE_SUM,
        (("      __syncwarp();  // read before a neighbour overwrites it\n", ""),),
        {"N": 4099},
    ),
    races(
        "non_atomic_bins",
        "threads of one CTA count in shared memory without atomics",
        catalogue.HISTOGRAM,
        (("atomicAdd(&mine[x[n]], 1u)", "mine[x[n]] += 1"),),
        {"N": 3000, "BINS": 37},
    ),
    races(
        "attention_no_barrier_after_read",
        "the next keys overwrite those that others still read (WAR)",
        catalogue.ATTENTION,
        (("      top = new_top;\n    }\n    __syncthreads();", "      top = new_top;\n    }"),),
        {"H": 1, "T": 64},
    ),
    races(
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
    races(
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
    races(
        "gemm_f16_no_barrier_after_wait",
        "each thread waits for its own copies only, then reads those of others",
        catalogue.GEMM_F16,
        (("    __syncthreads();  // this slab is there for all\n", ""),),
        _TENSOR,
    ),
    races(
        "gemm_f16_no_barrier_after_read",
        "the next copies overwrite the buffer that slower warps still read",
        catalogue.GEMM_F16,
        (("    __syncthreads();  // and was read by all\n", ""),),
        _TENSOR,
    ),
    races(
        "handoff_gives_back_before_reading",
        "the readers say that they took the tile, then take it",
        catalogue.HANDOFF,
        (
            ("      float value = buffer[TILE - 1 - at];\n", ""),
            (
                "        arrive(taken);\n      }\n",
                "        arrive(taken);\n      }\n      float value = buffer[TILE - 1 - at];\n",
            ),
        ),
        {"N": 512},
    ),
    races(
        "pipeline_gives_back_before_reading",
        "consumers give a stage back and then read it: the producer may be faster (WAR)",
        catalogue.PIPELINE,
        (
            (
                "      float value = ring[stage][threadIdx.x];\n      barrier_arrive(&empty[stage]);",
                "      barrier_arrive(&empty[stage]);\n      float value = ring[stage][threadIdx.x];",
            ),
        ),
        {"N": 1024},
    ),
    races(
        "pipeline_announces_before_writing",
        "once the ring is full, the last words of a tile are written after the producer has arrived (RAW)",
        catalogue.PIPELINE,
        (
            ("at < TILE; at += 32) {", "at < (tile < STAGES ? TILE : TILE - 32); at += 32) {"),
            (
                "      barrier_arrive(&full[stage]);",
                (
                    "      barrier_arrive(&full[stage]);\n      if (tile >= STAGES) {\n"
                    "        ring[stage][TILE - 32 + lane] = x[base + (tile + 1) * TILE - 32 + lane];\n      }"
                ),
            ),
        ),
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

RACES = (
    *_SHARED_RACES,
    *_GLOBAL_RACES,
)
