"""softmax in C: exponentials computed twice, kept after the first time, or summed under a maximum that rises."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import exponential, maximum, prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void softmax(const float *x, float *y, int64_t R, int64_t C)"
_TRAFFIC = "2 * R * C * (int64_t)sizeof(float)"
_ROWS_HEAD = "static void rows(const float *x, float *y, int64_t first, int64_t past, int64_t C, int streaming)"
_SCRATCH_FLOATS = 8 * 1024
"""Chosen: 32 KiB of stack, within the first-level cache of every machine of the last ten years."""

UNROLL = Tunable("unroll", (1, 2, 4), "vectors per iteration")
POWER = Tunable("power", ("poly5", "poly6", "libmvec"), "how e^x is computed")
BLOCK = Tunable("block_floats", (512, 2048, 8192), "elements under one maximum")
PREFETCH_PASS = Tunable("prefetch_pass", ("maximum", "powers"), "which pass over a row fetches what comes next")
FEW_ROWS = Tunable("few_rows", ("whole", "split"), "what threads share out when there are fewer rows than threads")

_SHARED = (cpu.VECTOR_BITS, cpu.STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, UNROLL, POWER)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)
_PREFETCH_RULES = (
    *_RULES,
    Constraint(
        (cpu.PREFETCH_BYTES.name, PREFETCH_PASS.name),
        lambda genome, _around: genome["prefetch_bytes"] != 0 or genome["prefetch_pass"] == "maximum",
        "prefetch_pass matters only where something is prefetched",
    ),
)
_STORED_RULES = (*_PREFETCH_RULES, cpu.idle_when_serial(FEW_ROWS))


def _ahead(genome: Genome, reading: str) -> str:
    """The prefetches of a pass over x; empty where another pass does it, or none."""
    fetches = genome.get(PREFETCH_PASS.name) == reading
    return cpu.prefetches(genome, "x + j", int(genome["unroll"])) if fetches else ""


def _row_max(genome: Genome, unroll: int) -> str:
    ahead = _ahead(genome, "maximum")
    return f"""
static float row_max(const float *x, int64_t C) {{
    vec {cpu.repeated(unroll, "m$k = (vec){0} - INFINITY", ", ")};
    int64_t j = 0;
    for (; j + {unroll} * LANES <= C; j += {unroll} * LANES) {{
{ahead}{cpu.repeated(unroll, "        m$k = larger(m$k, load(x + j$+k));")}
    }}
    for (; j + LANES <= C; j += LANES) m0 = larger(m0, load(x + j));
    if (j < C) m0 = larger(m0, load_some(x + j, C - j, -INFINITY));
{_joined(unroll)}
    return largest_lane(m0);
}}
"""


def _joined(unroll: int) -> str:
    return "\n".join(f"    m0 = larger(m0, m{k});" for k in range(1, unroll))


def _power_sum(genome: Genome, unroll: int) -> str:
    return f"""
static float power_sum(const float *x, int64_t C, float top) {{
    vec {cpu.repeated(unroll, "s$k = {0}", ", ")};
    int64_t j = 0;
    for (; j + {unroll} * LANES <= C; j += {unroll} * LANES) {{
{_ahead(genome, "powers")}{cpu.repeated(unroll, "        s$k += power(load(x + j$+k) - top);")}
    }}
    for (; j + LANES <= C; j += LANES) s0 += power(load(x + j) - top);
    if (j < C) s0 += power(load_some(x + j, C - j, top - OUT_OF_REACH) - top);
    return sum_lanes({cpu.repeated(unroll, "s$k", " + ")});
}}
"""


def _write_row(unroll: int, put: str, name: str) -> str:
    """y = e^(x − top) · scale, written with `store`, or with `stream` after a head that aligns y."""
    write = f"{put}(y + j$+k, power(load(x + j$+k) - top) * scale);"
    head = (
        "    const int64_t head = unaligned(y, C);\n"
        "    if (head) store_some(y, power(load_some(x, head, top) - top) * scale, head);\n"
    )
    return f"""
static void {name}(const float *x, float *y, int64_t C, float top, float scale) {{
{head if put == "stream" else ""}    int64_t j = {"head" if put == "stream" else "0"};
    for (; j + {unroll} * LANES <= C; j += {unroll} * LANES) {{
{cpu.repeated(unroll, "        " + write)}
    }}
    for (; j + LANES <= C; j += LANES) {write.replace("$+k", "")}
    if (j < C) store_some(y + j, power(load_some(x + j, C - j, top) - top) * scale, C - j);
}}
"""


def _writers(genome: Genome, unroll: int) -> str:
    plain = _write_row(unroll, "store", "write_row")
    streaming = _write_row(unroll, "stream", "write_row_streaming") if genome["stream_from_kib"] else ""
    choice = "    if (streaming) write_row_streaming(x, y, C, top, scale);\n    else " if streaming else "    "
    return f"""{plain}{streaming}
static void put_row(const float *x, float *y, int64_t C, float top, float scale, int streaming) {{
{choice}write_row(x, y, C, top, scale);
}}
"""


def _source(genome: Genome, summary: str, functions: str, few_rows: str = "") -> str:
    bits = int(genome["vector_bits"])
    dispatch = cpu.row_dispatch(genome, "R", "C", "rows(x, y, $first, $past, C, streaming)", _TRAFFIC)
    return f"""// softmax, {genome["variant"]}: {summary}
{prelude(bits)}
// e^-OUT_OF_REACH is 0: fills the lanes past the end of a row.
#define OUT_OF_REACH 200.0f
{maximum(bits)}{exponential(str(genome["power"]), bits)}{functions}
{_ENTRY} {{
{few_rows}{dispatch}}}
"""


def _three_pass(genome: Genome, around: Surroundings) -> Rendered:
    unroll = int(genome["unroll"])
    functions = (
        _row_max(genome, unroll)
        + _power_sum(genome, unroll)
        + _writers(genome, unroll)
        + f"""
{_ROWS_HEAD} {{
    for (int64_t i = first; i < past && C > 0; i++) {{
        const float top = row_max(x + i * C, C);
        put_row(x + i * C, y + i * C, C, top, 1.0f / power_sum(x + i * C, C, top), streaming);
    }}
}}
"""
    )
    return cpu.rendered(genome, around, _source(genome, THREE_PASS.summary, functions))


def _stored(genome: Genome, around: Surroundings) -> Rendered:
    unroll = int(genome["unroll"])
    functions = (
        _row_max(genome, unroll)
        + _keep_powers(genome, unroll)
        + _scale_row(unroll, "store", "scale_row")
        + (_scale_row(unroll, "stream", "scale_row_streaming") if genome["stream_from_kib"] else "")
        + _stored_rows(genome)
        + (_SPLIT_ROW if genome["few_rows"] == "split" else "")
    )
    few = _few_rows(genome) if genome["few_rows"] == "split" else ""
    return cpu.rendered(genome, around, _source(genome, STORED.summary, functions, few))


def _keep_powers(genome: Genome, unroll: int) -> str:
    keep = """        const vec p$k = power(load(x + j$+k) - top);
        s$k += p$k;
        store(kept + j$+k, p$k);"""
    return f"""
// Leaves e^(x - top) in `kept` and gives back their sum.
static float keep_powers(const float *x, float *kept, int64_t C, float top) {{
    vec {cpu.repeated(unroll, "s$k = {0}", ", ")};
    int64_t j = 0;
    for (; j + {unroll} * LANES <= C; j += {unroll} * LANES) {{
{_ahead(genome, "powers")}{cpu.repeated(unroll, keep)}
    }}
    for (; j < C; j += LANES) {{
        const int64_t n = C - j < LANES ? C - j : LANES;
        const vec p = power(load_some(x + j, n, top - OUT_OF_REACH) - top);
        s0 += p;
        store_some(kept + j, p, n);
    }}
    return sum_lanes({cpu.repeated(unroll, "s$k", " + ")});
}}
"""


def _scale_row(unroll: int, put: str, name: str) -> str:
    write = f"{put}(y + j$+k, load(kept + j$+k) * scale);"
    head = "    for (; j < unaligned(y, C); j++) y[j] = kept[j] * scale;\n" if put == "stream" else ""
    return f"""
static void {name}(const float *kept, float *y, int64_t C, float scale) {{
    int64_t j = 0;
{head}    for (; j + {unroll} * LANES <= C; j += {unroll} * LANES) {{
{cpu.repeated(unroll, "        " + write)}
    }}
    for (; j + LANES <= C; j += LANES) {write.replace("$+k", "")}
    for (; j < C; j++) y[j] = kept[j] * scale;
}}
"""


def _stored_rows(genome: Genome) -> str:
    streamed = f"""        if (streaming && C <= {_SCRATCH_FLOATS}) {{
            float kept[{_SCRATCH_FLOATS}] __attribute__((aligned(64)));
            const float sum = keep_powers(x + i * C, kept, C, top);
            scale_row_streaming(kept, y + i * C, C, 1.0f / sum);
            continue;
        }}
"""
    return f"""
{_ROWS_HEAD} {{
    for (int64_t i = first; i < past && C > 0; i++) {{
        const float top = row_max(x + i * C, C);
{streamed if genome["stream_from_kib"] else ""}        const float sum = keep_powers(x + i * C, y + i * C, C, top);
        scale_row(y + i * C, y + i * C, C, 1.0f / sum);
    }}
}}
"""


_SPLIT_ROW = """
enum { MOST_PARTS = 64 };

// How many of C columns are in part p; parts past the last column are empty.
static int64_t columns(int64_t p, int64_t share, int64_t C) {
    const int64_t left = C - p * share;
    return left < 0 ? 0 : left < share ? left : share;
}

// One row by all threads: each has its part of the columns.
static void split_row(const float *x, float *y, int64_t C) {
    float tops[MOST_PARTS], sums[MOST_PARTS], top = -INFINITY, sum = 0.0f;
    const int64_t threads = omp_get_max_threads(), parts = threads < MOST_PARTS ? threads : MOST_PARTS;
    const int64_t share = (C / LANES / parts + 1) * LANES;
#pragma omp parallel for schedule(static, 1)
    for (int64_t p = 0; p < parts; p++) tops[p] = row_max(x + p * share, columns(p, share, C));
    for (int64_t p = 0; p < parts; p++) top = tops[p] > top ? tops[p] : top;
#pragma omp parallel for schedule(static, 1)
    for (int64_t p = 0; p < parts; p++)
        sums[p] = keep_powers(x + p * share, y + p * share, columns(p, share, C), top);
    for (int64_t p = 0; p < parts; p++) sum += sums[p];
#pragma omp parallel for schedule(static, 1)
    for (int64_t p = 0; p < parts; p++) scale_row(y + p * share, y + p * share, columns(p, share, C), 1.0f / sum);
}
"""


def _few_rows(genome: Genome) -> str:
    return f"""    if (R < omp_get_max_threads() && {_TRAFFIC} >= {int(genome["parallel_from_kib"]) * cpu.KIB}) {{
        for (int64_t i = 0; i < R && C > 0; i++) split_row(x + i * C, y + i * C, C);
        return;
    }}
"""


def _online(genome: Genome, around: Surroundings) -> Rendered:
    unroll = int(genome["unroll"])
    functions = (
        _row_max(genome, unroll)
        + _power_sum(genome, unroll)
        + _writers(genome, unroll)
        + f"""
{_ROWS_HEAD} {{
    for (int64_t i = first; i < past && C > 0; i++) {{
        float top = -INFINITY, sum = 0.0f;
        for (int64_t j = 0; j < C; j += {genome["block_floats"]}) {{
            const int64_t n = C - j < {genome["block_floats"]} ? C - j : {genome["block_floats"]};
            const float peak = row_max(x + i * C + j, n);
            if (peak > top) {{
                sum *= power((vec){{0}} + (top - peak))[0];
                top = peak;
            }}
            sum += power_sum(x + i * C + j, n, top);
        }}
        put_row(x + i * C, y + i * C, C, top, 1.0f / sum, streaming);
    }}
}}
"""
    )
    return cpu.rendered(genome, around, _source(genome, ONLINE.summary, functions))


THREE_PASS = Variant(
    "three_pass",
    "maximum, sum of exponentials, and the exponentials again as they are written",
    (*_SHARED, cpu.PREFETCH_BYTES, PREFETCH_PASS),
    all_hold(_PREFETCH_RULES),
    _three_pass,
    none_broken(_PREFETCH_RULES),
)
STORED = Variant(
    "stored",
    "exponentials are computed once, kept in cache, and scaled as they are written",
    (*_SHARED, cpu.PREFETCH_BYTES, PREFETCH_PASS, FEW_ROWS),
    all_hold(_STORED_RULES),
    _stored,
    none_broken(_STORED_RULES),
)
ONLINE = Variant(
    "online",
    "one pass over memory: the sum follows a maximum that rises block by block",
    (*_SHARED, BLOCK),
    all_hold(_RULES),
    _online,
    none_broken(_RULES),
)

SPACE = Space("softmax", Language.C.value, {variant.name: variant for variant in (THREE_PASS, STORED, ONLINE)})
