"""silu_mul in C: one loop that computes as it reads, or bursts in which sigmoids wait in cache to be multiplied."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import exponential, maximum, prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void silu_mul(const float *g, const float *u, float *y, int64_t T, int64_t I)"
_TRAFFIC = "3 * T * I * (int64_t)sizeof(float)"
_CHUNK = 1024
"""Chosen: rows mean nothing here, so threads share out pieces of 4 KiB, small enough to split one row evenly."""

UNROLL = Tunable("unroll", (1, 2, 4), "vectors per iteration")
POWER = Tunable("power", ("poly5", "poly6", "libmvec"), "how e^x is computed")
BURST = Tunable("burst_floats", (256, 1024, 4096), "sigmoids kept before the second factor is read")

_SHARED = (cpu.VECTOR_BITS, cpu.STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, UNROLL, POWER)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)

_SILU = """
// g / (1 + e^-g), by the power that cannot overflow: e^-|g|, which belongs above the line as well where g < 0.
static inline vec silu(vec g) {
    const vec p = power((vec)((ivec)g | INT32_MIN));
    const ivec below = g < 0.0f;
    const vec above = (vec)((below & (ivec)p) | (~below & (ivec)((vec){0} + 1.0f)));
    return g * above / (1.0f + p);
}
"""


def _source(genome: Genome, summary: str, functions: str) -> str:
    bits = int(genome["vector_bits"])
    dispatch = cpu.row_dispatch(genome, "chunks", "CHUNK", "span(g, u, y, $first, $past, T * I, streaming)", _TRAFFIC)
    return f"""// silu_mul, {genome["variant"]}: {summary}
{prelude(bits)}
enum {{ CHUNK = {_CHUNK} }};
{maximum(bits)}{exponential(str(genome["power"]), bits)}{_SILU}{functions}{_span(genome)}
{_ENTRY} {{
    const int64_t chunks = (T * I + CHUNK - 1) / CHUNK;
{dispatch}}}
"""


def _span(genome: Genome) -> str:
    """What a thread is handed: chunks `first` to `past` of `all` elements."""
    choice = "    if (streaming) gate_streaming(g + j, u + j, y + j, n);\n    else "
    return f"""
static void span(const float *g, const float *u, float *y, int64_t first, int64_t past, int64_t all, int streaming) {{
    const int64_t j = first * CHUNK, n = (past * CHUNK < all ? past * CHUNK : all) - j;
{choice if genome["stream_from_kib"] else "    "}gate(g + j, u + j, y + j, n);
}}
"""


def _gates(genome: Genome, loop: str, *, kept: str = "") -> str:
    """`gate`, and `gate_streaming` where the genome streams. `loop` uses `$put` and goes on from j."""
    rest = "silu(load_some(g + j, n - j, 0.0f)) * load_some(u + j, n - j, 0.0f)"
    return "".join(
        f"""
static void {name}(const float *g, const float *u, float *y, int64_t n) {{
{kept}    int64_t j = 0;
{_HEAD if put == "stream" else ""}{loop.replace("$put", put)}    if (j < n) store_some(y + j, {rest}, n - j);
}}
"""
        for name, put in (("gate", "store"), ("gate_streaming", "stream"))
        if put == "store" or genome["stream_from_kib"]
    )


_HEAD = """    const int64_t head = unaligned(y, n);
    if (head) store_some(y, silu(load_some(g, head, 0.0f)) * load_some(u, head, 0.0f), head);
    j = head;
"""


def _one_pass(genome: Genome, around: Surroundings) -> Rendered:
    unroll = int(genome["unroll"])
    ahead = cpu.prefetches(genome, "g + j", unroll) + cpu.prefetches(genome, "u + j", unroll)
    loop = f"""    for (; j + {unroll} * LANES <= n; j += {unroll} * LANES) {{
{ahead}{cpu.repeated(unroll, "        $put(y + j$+k, silu(load(g + j$+k)) * load(u + j$+k));")}
    }}
    for (; j + LANES <= n; j += LANES) $put(y + j, silu(load(g + j)) * load(u + j));
"""
    return cpu.rendered(genome, around, _source(genome, ONE_PASS.summary, _gates(genome, loop)))


def _bursts(genome: Genome, around: Surroundings) -> Rendered:
    """Memory is read as one stream, then as another, and written in runs of a burst."""
    unroll = int(genome["unroll"])
    loop = f"""    for (; j + BURST <= n; j += BURST) {{
        for (int64_t k = 0; k < BURST; k += {unroll} * LANES) {{
{cpu.repeated(unroll, "            store(kept + k$+k, silu(load(g + j + k$+k)));")}
        }}
        for (int64_t k = 0; k < BURST; k += {unroll} * LANES) {{
{cpu.repeated(unroll, "            $put(y + j + k$+k, load(kept + k$+k) * load(u + j + k$+k));")}
        }}
    }}
    for (; j + LANES <= n; j += LANES) $put(y + j, silu(load(g + j)) * load(u + j));
"""
    kept = "    float kept[BURST] __attribute__((aligned(64)));\n"
    functions = f"\nenum {{ BURST = {genome['burst_floats']} }};\n" + _gates(genome, loop, kept=kept)
    return cpu.rendered(genome, around, _source(genome, BURSTS.summary, functions))


ONE_PASS = Variant(
    "one_pass",
    "one loop reads both factors, computes and writes",
    (*_SHARED, cpu.PREFETCH_BYTES),
    all_hold(_RULES),
    _one_pass,
    none_broken(_RULES),
)
BURSTS = Variant(
    "bursts",
    "sigmoids of a burst of the gate wait in cache until the second factor is read and the product written",
    (*_SHARED, BURST),
    all_hold(_RULES),
    _bursts,
    none_broken(_RULES),
)

SPACE = Space("silu_mul", Language.C.value, {variant.name: variant for variant in (ONE_PASS, BURSTS)})
