"""gemv in C: a row at a time, several rows that share each load of x, or x in pieces that stay in the nearest cache."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void gemv(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K)"
_TRAFFIC = "(N * K + B * (N + K)) * (int64_t)sizeof(float)"
_PANEL_ROWS = 64
"""Chosen: rows that pass over one piece of x before the next piece is fetched."""

BATCH = Tunable("batch", (2, 4, 8), "vectors that share each load of w")
ROWS = Tunable("rows", (2, 4, 8), "rows of w that share each load of x")
LONE_ROWS = Tunable("lone_rows", (2, 4, 8), "rows of w that share each load of x where there is one vector")
ACCUMULATORS = Tunable("accumulators", (1, 2, 4, 8), "independent sums per row and vector")
PIECE = Tunable("piece_floats", (1024, 2048, 4096), "elements of each vector in a piece")

_SHARED = (cpu.VECTOR_BITS, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, cpu.PREFETCH_BYTES, BATCH)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)


def _sums_fit(other: Tunable) -> Constraint:
    """AVX-512 has 32 registers, AVX2 half of them; some are needed for w and x."""
    return Constraint(
        (BATCH.name, other.name),
        lambda genome, around: (
            int(genome["batch"]) * int(genome[other.name]) <= (24 if around.vector_bits >= 512 else 12)
        ),
        "all sums stay in registers",
    )


_ROW_RULES = (*_RULES, _sums_fit(ACCUMULATORS))
_BLOCK_RULES = (*_RULES, _sums_fit(ROWS))


def _dots(genome: Genome, rows: int, batch: int, accumulators: int) -> str:
    """`dots_RxB`: the products of `rows` rows with `batch` vectors over n elements, written to y or added to it."""
    sums = [(r, v) for r in range(rows) for v in range(batch)]
    names = ", ".join(f"a{r}_{v}_{u} = {{0}}" for r, v in sums for u in range(accumulators))
    ahead = "".join(cpu.prefetches(genome, f"w + {r} * K + j", accumulators) for r in range(rows))
    step = "\n".join(_step(rows, batch, u) for u in range(accumulators))
    puts = "\n".join(_put(r, v, accumulators) for r, v in sums)
    single = f"""    for (; j + LANES <= n; j += LANES) {{
{_step(rows, batch, 0)}
    }}
"""
    return f"""
static void dots_{rows}x{batch}(const float *w, const float *x, float *y, int64_t N, int64_t K, int64_t n, int add) {{
    vec {names};
    int64_t j = 0;
    for (; j + {accumulators} * LANES <= n; j += {accumulators} * LANES) {{
{ahead}{step}
    }}
{single if accumulators > 1 else ""}    if (j < n) {{
{_rest(rows, batch)}
    }}
{puts}
}}
"""


def _step(rows: int, batch: int, u: int) -> str:
    """One vector of each row times one of each x."""
    at = f"j + {u} * LANES" if u else "j"
    loads = [f"        const vec x{v}_{u} = load(x + {v} * K + {at});" for v in range(batch)]
    for r in range(rows):
        loads.append(f"        const vec w{r}_{u} = load(w + {r} * K + {at});")
        loads += [f"        a{r}_{v}_{u} += w{r}_{u} * x{v}_{u};" for v in range(batch)]
    return "\n".join(loads)


def _rest(rows: int, batch: int) -> str:
    lines = [f"        const vec x{v} = load_some(x + {v} * K + j, n - j, 0.0f);" for v in range(batch)]
    for r in range(rows):
        lines.append(f"        const vec w{r} = load_some(w + {r} * K + j, n - j, 0.0f);")
        lines += [f"        a{r}_{v}_0 += w{r} * x{v};" for v in range(batch)]
    return "\n".join(lines)


def _put(row: int, vector: int, accumulators: int) -> str:
    total = " + ".join(f"a{row}_{vector}_{u}" for u in range(accumulators))
    there = f"y[{vector} * N + {row}]"
    return f"    {there} = sum_lanes({total}) + (add ? {there} : 0.0f);"


def _every_batch(genome: Genome, rows: int, accumulators: int) -> str:
    """`all_R`: `rows` rows with every vector, `batch` at a time, then halves of that."""
    sizes = [size for size in (8, 4, 2, 1) if size <= int(genome["batch"])]
    dots = "".join(_dots(genome, rows, size, accumulators) for size in sizes)
    calls = "\n".join(
        f"    for (; b + {size} <= B; b += {size}) dots_{rows}x{size}(w, x + b * K, y + b * N, N, K, n, add);"
        for size in sizes
    )
    return f"""{dots}
static void all_{rows}(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K, int64_t n, int add) {{
    int64_t b = 0;
{calls}
}}
"""


def _source(genome: Genome, summary: str, functions: str) -> str:
    dispatch = cpu.row_dispatch(genome, "N", "K", "rows(w, x, y, B, N, K, $first, $past)", _TRAFFIC)
    return f"""// gemv, {genome["variant"]}: {summary}
{prelude(int(genome["vector_bits"]))}{functions}
{_ENTRY} {{
{dispatch}}}
"""


_ROWS_HEAD = (
    "static void rows(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K, int64_t first,\n"
    "                 int64_t past)"
)


def _side_by_side(genome: Genome) -> str:
    """`sums`: the products of `count` rows with every vector over n elements. A lone vector leaves registers for other
    rows than a batch does."""
    rows, lone = int(genome["rows"]), int(genome["lone_rows"])
    dots = (
        _every_batch(genome, 1, 1) + _every_batch(genome, rows, 1) + (_dots(genome, lone, 1, 1) if lone != rows else "")
    )
    return f"""{dots}
static void sums(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K, int64_t count, int64_t n,
                 int add) {{
    int64_t i = 0;
    if (B == 1) for (; i + {lone} <= count; i += {lone}) dots_{lone}x1(w + i * K, x, y + i, N, K, n, add);
    else for (; i + {rows} <= count; i += {rows}) all_{rows}(w + i * K, x, y + i, B, N, K, n, add);
    for (; i < count; i++) all_1(w + i * K, x, y + i, B, N, K, n, add);
}}
"""


def _row_wise(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""{_every_batch(genome, 1, int(genome["accumulators"]))}
{_ROWS_HEAD} {{
    for (int64_t i = first; i < past; i++) all_1(w + i * K, x, y + i, B, N, K, K, 0);
}}
"""
    return cpu.rendered(genome, around, _source(genome, ROW_WISE.summary, functions))


def _multi_row(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""{_side_by_side(genome)}
{_ROWS_HEAD} {{
    sums(w + first * K, x, y + first, B, N, K, past - first, K, 0);
}}
"""
    return cpu.rendered(genome, around, _source(genome, MULTI_ROW.summary, functions))


def _column_split(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""{_side_by_side(genome)}
enum {{ PANEL = {_PANEL_ROWS}, PIECE = {genome["piece_floats"]} }};

static void panel(const float *w, const float *x, float *y, int64_t B, int64_t N, int64_t K, int64_t count,
                  int64_t k) {{
    sums(w + k, x + k, y, B, N, K, count, K - k < PIECE ? K - k : PIECE, k > 0);
}}

{_ROWS_HEAD} {{
    for (int64_t i = first; i < past; i += PANEL) {{
        const int64_t count = past - i < PANEL ? past - i : PANEL;
        panel(w + i * K, x, y + i, B, N, K, count, 0);
        for (int64_t k = PIECE; k < K; k += PIECE) panel(w + i * K, x, y + i, B, N, K, count, k);
    }}
}}
"""
    return cpu.rendered(genome, around, _source(genome, COLUMN_SPLIT.summary, functions))


ROW_WISE = Variant(
    "row_wise",
    "one row of w at a time, in several sums",
    (*_SHARED, ACCUMULATORS),
    all_hold(_ROW_RULES),
    _row_wise,
    none_broken(_ROW_RULES),
)
MULTI_ROW = Variant(
    "multi_row",
    "several rows of w are read side by side and share each load of x",
    (*_SHARED, ROWS, LONE_ROWS),
    all_hold(_BLOCK_RULES),
    _multi_row,
    none_broken(_BLOCK_RULES),
)
COLUMN_SPLIT = Variant(
    "column_split",
    "a piece of x stays in the nearest cache while many rows pass over it, and sums are continued piece by piece",
    (*_SHARED, ROWS, LONE_ROWS, PIECE),
    all_hold(_BLOCK_RULES),
    _column_split,
    none_broken(_BLOCK_RULES),
)

SPACE = Space("gemv", Language.C.value, {variant.name: variant for variant in (ROW_WISE, MULTI_ROW, COLUMN_SPLIT)})
