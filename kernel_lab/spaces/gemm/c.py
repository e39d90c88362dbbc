"""gemm in C: a tile of c in registers, over operands that are packed, half packed or read where they lie.

The loops around the tile are those of Goto and van de Geijn, Anatomy of High-Performance Matrix Multiplication (2008).
"""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void gemm(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K)"
_TRAFFIC = "(M * K + K * N + M * N) * (int64_t)sizeof(float)"
_STACK_FLOATS = 320 * 1024
"""Chosen: packed operands take at most 1.25 MiB of a thread's stack, which an OpenMP thread has by default."""
_STRIPE = 2048
"""Chosen: 8 KiB of each row of b, so that the sums of a few rows of c stay in the first-level cache."""

TILE = Tunable("tile", ("4x3", "6x2", "8x3", "12x2", "14x2"), "rows × vectors of c that stay in registers")
DEPTH = Tunable("depth", (256, 384), "steps along K between visits to c")
PANELS = Tunable("panels", (4, 8, 16), "panels of b, as wide as a tile, that are packed together")
BLOCK_TILES = Tunable("block_tiles", (4, 8, 16), "tiles of rows of a that pass over the packed panels together")
UNROLL = Tunable("unroll", (1, 2), "steps along K per iteration")
NARROW = Tunable("narrow", (0, 4, 8), "up to how many rows b is only streamed through, once")
PARALLEL_FROM_KIB = cpu.PARALLEL_FROM_KIB

_SHARED = (cpu.VECTOR_BITS, cpu.THREADS, PARALLEL_FROM_KIB, TILE, DEPTH, UNROLL, NARROW)


def _rows(genome: Genome) -> int:
    return int(str(genome["tile"]).split("x")[0])


def _vectors(genome: Genome) -> int:
    return int(str(genome["tile"]).split("x")[1])


def _width(genome: Genome) -> int:
    """Floats of c that a tile is wide."""
    return _vectors(genome) * int(genome["vector_bits"]) // 32


_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(PARALLEL_FROM_KIB),
    Constraint(
        (TILE.name,),
        lambda genome, around: (_rows(genome) + 1) * _vectors(genome) <= (31 if around.vector_bits >= 512 else 15),
        "the tile, a row of b and an element of a stay in registers",
    ),
)
_STACK_FITS = Constraint(
    (cpu.VECTOR_BITS.name, TILE.name, DEPTH.name, PANELS.name),
    lambda genome, _around: int(genome["depth"]) * int(genome["panels"]) * _width(genome) <= _STACK_FLOATS,
    "packed panels stay on the stack, and in the second-level cache",
)
_PACKED_RULES = (*_RULES, _STACK_FITS)

_PACK = """
static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// ROWS rows of a side by side, step by step along K; rows past the last are zeros.
static void pack_rows(const float *a, int64_t K, float *packed, int64_t rows, int64_t depth) {
    for (int64_t r = 0; r < ROWS; r++)
        for (int64_t k = 0; k < depth; k++) packed[k * ROWS + r] = r < rows ? a[r * K + k] : 0.0f;
}

// WIDTH columns of b, step by step along K; columns past the last are zeros.
static void pack_columns(const float *b, int64_t N, float *packed, int64_t columns, int64_t depth) {
    if (columns == WIDTH) {
        for (int64_t k = 0; k < depth; k++)
            for (int64_t j = 0; j < WIDTH; j += LANES) store(packed + k * WIDTH + j, load(b + k * N + j));
        return;
    }
    for (int64_t k = 0; k < depth; k++)
        for (int64_t j = 0; j < WIDTH; j++) packed[k * WIDTH + j] = j < columns ? b[k * N + j] : 0.0f;
}
"""

_EDGE = """
// A tile of which only some rows and columns are within c.
static void edge(int64_t depth, const float *a, int64_t row, int64_t step, const float *b, int64_t next, float *c,
                 int64_t N, int64_t rows, int64_t columns, int add) {
    float kept[ROWS * WIDTH] __attribute__((aligned(64)));
    tile(depth, a, row, step, b, next, kept, WIDTH, 0);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < columns; j++) c[r * N + j] = kept[r * WIDTH + j] + (add ? c[r * N + j] : 0.0f);
}

static void put(int64_t depth, const float *a, int64_t row, int64_t step, const float *b, int64_t next, float *c,
                int64_t N, int64_t rows, int64_t columns, int add) {
    if (rows == ROWS && columns == WIDTH) tile(depth, a, row, step, b, next, c, N, add);
    else edge(depth, a, row, step, b, next, c, N, rows, columns, add);
}
"""


def _tile(genome: Genome) -> str:
    """`tile`: element (r, k) of a lies at a[r · row + k · step], row k of b at b + k · next."""
    rows, vectors = _rows(genome), _vectors(genome)
    sums = ", ".join(f"c{r}_{v} = {{0}}" for r in range(rows) for v in range(vectors))
    loads = "\n".join(f"        const vec b{v} = load(b + {v} * LANES);" for v in range(vectors))
    products = "\n".join(
        "        "
        + " ".join((f"const float a{r} = a[{r} * row];", *(f"c{r}_{v} += b{v} * a{r};" for v in range(vectors))))
        for r in range(rows)
    )
    put = "\n".join(
        f"        store(c + {r} * N + {v} * LANES, {{before}}c{r}_{v});" for r in range(rows) for v in range(vectors)
    )
    added = "\n".join(
        f"        store(c + {r} * N + {v} * LANES, load(c + {r} * N + {v} * LANES) + c{r}_{v});"
        for r in range(rows)
        for v in range(vectors)
    )
    return f"""
// A tile of c in registers: the sum of `depth` outer products.
static __attribute__((noinline)) void tile(int64_t depth, const float *a, int64_t row, int64_t step, const float *b,
                                           int64_t next, float *c, int64_t N, int add) {{
    vec {sums};
#pragma GCC unroll {genome["unroll"]}
    for (int64_t k = 0; k < depth; k++, a += step, b += next) {{
{loads}
{products}
    }}
    if (add) {{
{added}
    }} else {{
{put.replace("{before}", "")}
    }}
}}
"""


def _narrow(genome: Genome) -> str:
    """`narrow`: c is kept in cache and b goes by once, several of its rows at a time."""
    if not genome["narrow"]:
        return ""
    return f"""
enum {{ STRIPE = {_STRIPE} }};
{_stripe(4, 4)}{_stripe(1, 8)}
static void narrow(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K, int64_t n0, int64_t n1) {{
    for (int64_t j = n0; j < n1; j += STRIPE) {{
        const int64_t n = least(STRIPE, n1 - j);
        int64_t m = 0;
        for (; m + 4 <= M; m += 4) stripe_4(a + m * K, b + j, c + m * N + j, N, K, n);
        for (; m < M; m++) stripe_1(a + m * K, b + j, c + m * N + j, N, K, n);
    }}
}}
"""


def _stripe(rows: int, depth: int) -> str:
    """`stripe_R`: `rows` rows of c over n columns, `depth` rows of b at a time, then the rest of them one by one."""
    return f"""
static void stripe_{rows}(const float *a, const float *b, float *c, int64_t N, int64_t K, int64_t n) {{
    for (int64_t r = 0; r < {rows}; r++) memset(c + r * N, 0, n * sizeof(float));
    int64_t k = 0;
{_passes(rows, depth, ahead=True)}{_passes(rows, 1, ahead=False)}}}
"""


def _passes(rows: int, depth: int, *, ahead: bool) -> str:
    """c += a · b over `depth` rows of b, what of a they need being in registers; the next are fetched where `ahead`."""
    factors = "\n".join(
        f"        const float {', '.join(f'a{r}_{s} = a[{r} * K + k + {s}]' for s in range(depth))};"
        for r in range(rows)
    )
    fetch = "".join(f"            __builtin_prefetch(b + (k + {depth + s}) * N + j);\n" for s in range(depth))
    loads = "\n".join(f"            const vec b{s} = load(b + (k + {s}) * N + j);" for s in range(depth))
    sums = [" + ".join(f"b{s} * a{r}_{s}" for s in range(depth)) for r in range(rows)]
    adds = "\n".join(f"            store(c + {r} * N + j, load(c + {r} * N + j) + {sums[r]});" for r in range(rows))
    scalars = "\n".join(f"            const float b{s} = b[(k + {s}) * N + j];" for s in range(depth))
    rest = "\n".join(f"            c[{r} * N + j] += {sums[r]};" for r in range(rows))
    return f"""    for (; k + {depth} <= K; k += {depth}) {{
{factors}
        int64_t j = 0;
        for (; j + LANES <= n; j += LANES) {{
{fetch if ahead else ""}{loads}
{adds}
        }}
        for (; j < n; j++) {{
{scalars}
{rest}
        }}
    }}
"""


def _source(genome: Genome, summary: str, product: str) -> str:
    narrow = f"if (M <= {genome['narrow']}) narrow(a, b, c, M, N, K, n0, n1);\n    else " if genome["narrow"] else ""
    threaded = f"""    if ({_TRAFFIC} >= {int(genome["parallel_from_kib"]) * cpu.KIB}) {{
        const int64_t parts = omp_get_max_threads(), along = M > N;
        const int64_t share = along ? ((M + ROWS - 1) / ROWS + parts - 1) / parts * ROWS
                                    : ((N + WIDTH - 1) / WIDTH + parts - 1) / parts * WIDTH;
#pragma omp parallel for schedule(static, 1)
        for (int64_t p = 0; p < parts; p++) {{
            const int64_t first = p * share, past = first + share;
            if (along) share_of(a, b, c, M, N, K, least(first, M), least(past, M), 0, N);
            else share_of(a, b, c, M, N, K, 0, M, least(first, N), least(past, N));
        }}
        return;
    }}
"""
    return f"""// gemm, {genome["variant"]}: {summary}
#include <string.h>
{prelude(int(genome["vector_bits"]))}
enum {{ ROWS = {_rows(genome)}, WIDTH = {_vectors(genome)} * LANES, DEPTH = {genome["depth"]} }};
{_tile(genome)}{_PACK}{_EDGE}{_narrow(genome)}{product}
// Rows m0 to m1 and columns n0 to n1 of c.
static void share_of(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K, int64_t m0, int64_t m1,
                     int64_t n0, int64_t n1) {{
{"" if genome["narrow"] else "    (void)M;" + chr(10)}    {narrow}product(a, b, c, N, K, m0, m1, n0, n1);
}}

{_ENTRY} {{
    if (K == 0) {{
        memset(c, 0, M * N * sizeof(float));
        return;
    }}
{threaded if genome["threads"] != "one" else ""}    share_of(a, b, c, M, N, K, 0, M, 0, N);
}}
"""


_PRODUCT_HEAD = """
static void product(const float *a, const float *b, float *c, int64_t N, int64_t K, int64_t m0, int64_t m1, int64_t n0,
                    int64_t n1) {"""


def _packed(genome: Genome, around: Surroundings) -> Rendered:
    product = f"""
enum {{ PANELS = {genome["panels"]}, BLOCK = {genome["block_tiles"]} * ROWS }};
{_PRODUCT_HEAD}
    float panels[PANELS * WIDTH * DEPTH] __attribute__((aligned(64)));
    float block[BLOCK * DEPTH] __attribute__((aligned(64)));
    for (int64_t n = n0; n < n1; n += PANELS * WIDTH)
        for (int64_t k = 0; k < K; k += DEPTH) {{
            const int64_t depth = least(DEPTH, K - k), right = least(n + PANELS * WIDTH, n1);
            for (int64_t j = n; j < right; j += WIDTH)
                pack_columns(b + k * N + j, N, panels + (j - n) * DEPTH, least(WIDTH, right - j), depth);
            for (int64_t m = m0; m < m1; m += BLOCK) {{
                const int64_t below = least(m + BLOCK, m1);
                for (int64_t i = m; i < below; i += ROWS)
                    pack_rows(a + i * K + k, K, block + (i - m) * DEPTH, least(ROWS, below - i), depth);
                for (int64_t j = n; j < right; j += WIDTH)
                    for (int64_t i = m; i < below; i += ROWS)
                        put(depth, block + (i - m) * DEPTH, 1, ROWS, panels + (j - n) * DEPTH, WIDTH, c + i * N + j, N,
                            least(ROWS, below - i), least(WIDTH, right - j), k > 0);
            }}
        }}
}}
"""
    return cpu.rendered(genome, around, _source(genome, PACKED.summary, product))


def _half_packed(genome: Genome, around: Surroundings) -> Rendered:
    product = f"""
enum {{ PANELS = {genome["panels"]} }};
{_PRODUCT_HEAD}
    float panels[PANELS * WIDTH * DEPTH] __attribute__((aligned(64)));
    float few[ROWS * DEPTH] __attribute__((aligned(64)));
    for (int64_t n = n0; n < n1; n += PANELS * WIDTH)
        for (int64_t k = 0; k < K; k += DEPTH) {{
            const int64_t depth = least(DEPTH, K - k), right = least(n + PANELS * WIDTH, n1);
            for (int64_t j = n; j < right; j += WIDTH)
                pack_columns(b + k * N + j, N, panels + (j - n) * DEPTH, least(WIDTH, right - j), depth);
            for (int64_t i = m0; i < m1; i += ROWS) {{
                const int64_t rows = least(ROWS, m1 - i);
                if (rows < ROWS) pack_rows(a + i * K + k, K, few, rows, depth);
                for (int64_t j = n; j < right; j += WIDTH)
                    if (rows < ROWS)
                        put(depth, few, 1, ROWS, panels + (j - n) * DEPTH, WIDTH, c + i * N + j, N, rows,
                            least(WIDTH, right - j), k > 0);
                    else
                        put(depth, a + i * K + k, K, 1, panels + (j - n) * DEPTH, WIDTH, c + i * N + j, N, ROWS,
                            least(WIDTH, right - j), k > 0);
            }}
        }}
}}
"""
    return cpu.rendered(genome, around, _source(genome, HALF_PACKED.summary, product))


def _direct(genome: Genome, around: Surroundings) -> Rendered:
    product = f"""{_PRODUCT_HEAD}
    float few[ROWS * DEPTH] __attribute__((aligned(64)));
    float last[WIDTH * DEPTH] __attribute__((aligned(64)));
    for (int64_t k = 0; k < K; k += DEPTH)
        for (int64_t j = n0; j < n1; j += WIDTH) {{
            const int64_t depth = least(DEPTH, K - k), columns = least(WIDTH, n1 - j);
            if (columns < WIDTH) pack_columns(b + k * N + j, N, last, columns, depth);
            const float *there = columns < WIDTH ? last : b + k * N + j;
            const int64_t next = columns < WIDTH ? WIDTH : N;
            for (int64_t i = m0; i < m1; i += ROWS) {{
                const int64_t rows = least(ROWS, m1 - i);
                if (rows < ROWS) {{
                    pack_rows(a + i * K + k, K, few, rows, depth);
                    put(depth, few, 1, ROWS, there, next, c + i * N + j, N, rows, columns, k > 0);
                }} else {{
                    put(depth, a + i * K + k, K, 1, there, next, c + i * N + j, N, ROWS, columns, k > 0);
                }}
            }}
        }}
}}
"""
    return cpu.rendered(genome, around, _source(genome, DIRECT.summary, product))


PACKED = Variant(
    "packed",
    "blocks of both operands are packed into the order in which tiles read them",
    (*_SHARED, PANELS, BLOCK_TILES),
    all_hold(_PACKED_RULES),
    _packed,
    none_broken(_PACKED_RULES),
)
HALF_PACKED = Variant(
    "half_packed",
    "panels of b are packed, a is read where it lies",
    (*_SHARED, PANELS),
    all_hold(_PACKED_RULES),
    _half_packed,
    none_broken(_PACKED_RULES),
)
DIRECT = Variant(
    "direct",
    "nothing is packed: tiles read both operands where they lie",
    _SHARED,
    all_hold(_RULES),
    _direct,
    none_broken(_RULES),
)

SPACE = Space("gemm", Language.C.value, {variant.name: variant for variant in (PACKED, HALF_PACKED, DIRECT)})
