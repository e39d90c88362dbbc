"""reduce_sum in C: long streams with one partial sum a thread, or a fixed tree that gives the same bits everywhere."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void reduce_sum(const float *x, float *y, int64_t N)"
_REGISTERS = 16
"""Accumulators beyond the vector registers of AVX2 spill."""

ACCUMULATORS = Tunable("accumulators", (2, 4, 8), "independent sums per stream")
STREAMS = Tunable("streams", (1, 2, 4), "places in memory that are read side by side")
PREFETCH_BYTES = Tunable("prefetch_bytes", (0, 1024, 4096, 16384), "how far ahead each stream prefetches; 0: not")
PARALLEL_FROM_KIB = Tunable("parallel_from_kib", (64, 512, 4096), "more than one thread from this much data on")
PARTS = Tunable("parts", (64, 256, 1024), "leaves of the tree")
SCHEDULE = Tunable("schedule", ("static", "dynamic"), "how leaves are dealt to threads")

_RULES = (cpu.WIDTH_FITS, cpu.THREADS_FIT, cpu.idle_when_serial(PARALLEL_FROM_KIB))
_STREAM_RULES = (
    *_RULES,
    Constraint(
        (ACCUMULATORS.name, STREAMS.name),
        lambda genome, _around: int(genome["accumulators"]) * int(genome["streams"]) <= _REGISTERS,
        "all accumulators stay in registers",
    ),
    Constraint(
        (cpu.THREADS.name,),
        lambda genome, around: genome["threads"] == "one" or not around.deterministic,
        "partial sums per thread depend on the number of threads",
    ),
)
_TREE_RULES = (*_RULES, cpu.idle_when_serial(SCHEDULE))


def _span_sum(genome: Genome, streams: int) -> str:
    """The sum of a contiguous span, read as `streams` equal parts side by side."""
    accumulators = int(genome["accumulators"])
    names = [f"a{s}_{k}" for s in range(streams) for k in range(accumulators)]
    body = "\n".join(_step(genome, stream, accumulators) for stream in range(streams))
    return f"""
enum {{ STREAMS = {streams}, STEP = {accumulators} * LANES }};

static float span_sum(const float *x, int64_t n) {{
    vec {", ".join(f"{name} = {{0}}" for name in names)};
    const int64_t part = n / STREAMS, whole = part / STEP * STEP;
    for (int64_t j = 0; j < whole; j += STEP) {{
{body}
    }}
    float total = sum_lanes({_paired(names)});
    for (int s = 0; s < STREAMS; s++)
        for (int64_t j = whole; j < part; j++) total += x[s * part + j];
    for (int64_t j = STREAMS * part; j < n; j++) total += x[j];
    return total;
}}
"""


def _step(genome: Genome, stream: int, accumulators: int) -> str:
    base = f"x + {stream} * part + j" if stream else "x + j"
    adds = cpu.repeated(accumulators, f"        a{stream}_$k += load({base}$+k);")
    return cpu.prefetches(genome, base, accumulators) + adds


def _paired(names: list[str]) -> str:
    """A balanced tree of additions."""
    if len(names) == 1:
        return names[0]
    half = len(names) // 2
    return f"({_paired(names[:half])} + {_paired(names[half:])})"


def _source(genome: Genome, summary: str, functions: str) -> str:
    return f"""// reduce_sum, {genome["variant"]}: {summary}
{prelude(int(genome["vector_bits"]))}{functions}"""


def _streams(genome: Genome, around: Surroundings) -> Rendered:
    parallel = f"""    if (N * (int64_t)sizeof(float) >= {int(genome["parallel_from_kib"]) * cpu.KIB}) {{
        const int64_t threads = omp_get_max_threads();
        const int64_t span = (N / threads + 1023) / 1024 * 1024;
        float total = 0.0f;
#pragma omp parallel for schedule(static, 1) reduction(+ : total)
        for (int64_t t = 0; t < threads; t++) {{
            const int64_t first = t * span < N ? t * span : N;
            const int64_t past = t + 1 < threads && first + span < N ? first + span : N;
            total += span_sum(x + first, past - first);
        }}
        y[0] = total;
        return;
    }}
"""
    functions = f"""{_span_sum(genome, int(genome["streams"]))}
{_ENTRY} {{
{parallel if genome["threads"] != "one" else ""}    y[0] = span_sum(x, N);
}}
"""
    return cpu.rendered(genome, around, _source(genome, STREAMED.summary, functions))


def _tree(genome: Genome, around: Surroundings) -> Rendered:
    threshold = int(genome["parallel_from_kib"]) * cpu.KIB
    pragma = (
        f"#pragma omp parallel for schedule({genome['schedule']}, 4) if (N * (int64_t)sizeof(float) >= {threshold})\n"
        if genome["threads"] != "one"
        else ""
    )
    functions = f"""{_span_sum(genome, 1)}
enum {{ PARTS = {genome["parts"]} }};

// Neighbours are added, then neighbours of those: the order does not depend on threads.
static float fold(float *leaves) {{
    for (int width = PARTS / 2; width; width /= 2)
        for (int k = 0; k < width; k++) leaves[k] = leaves[2 * k] + leaves[2 * k + 1];
    return leaves[0];
}}

{_ENTRY} {{
    float leaves[PARTS];
    const int64_t span = (N / PARTS + STEP) / STEP * STEP;
{pragma}    for (int64_t p = 0; p < PARTS; p++) {{
        const int64_t first = p * span < N ? p * span : N;
        const int64_t past = first + span < N ? first + span : N;
        leaves[p] = span_sum(x + first, past - first);
    }}
    y[0] = fold(leaves);
}}
"""
    return cpu.rendered(genome, around, _source(genome, TREE.summary, functions))


_SHARED = (cpu.VECTOR_BITS, ACCUMULATORS, PREFETCH_BYTES, cpu.THREADS, PARALLEL_FROM_KIB)

STREAMED = Variant(
    "streamed",
    "each thread reads a few streams side by side into many accumulators",
    (*_SHARED, STREAMS),
    all_hold(_STREAM_RULES),
    _streams,
    none_broken(_STREAM_RULES),
)
TREE = Variant(
    "tree",
    "a fixed number of leaves, folded pairwise in a fixed order",
    (*_SHARED, PARTS, SCHEDULE),
    all_hold(_TREE_RULES),
    _tree,
    none_broken(_TREE_RULES),
)

SPACE = Space("reduce_sum", Language.C.value, {variant.name: variant for variant in (STREAMED, TREE)})
