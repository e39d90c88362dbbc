"""transpose in C: tiles turned in registers, in blocks, by halving, or by way of a buffer that can be streamed from."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import prelude, turned
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void transpose(const float *x, float *y, int64_t M, int64_t N)"
_TRAFFIC = "2 * M * N * (int64_t)sizeof(float)"
_BLOCK_HEAD = "(const float *x, float *y, int64_t M, int64_t N, int64_t m0, int64_t m1, int64_t n0, int64_t n1"
_HALVED = 512
"""Chosen: halving starts from blocks of 1 MiB, so that threads have enough of them to share."""
_BUFFER_FLOATS = 32 * 1024
"""Chosen: 128 KiB of stack, which the second-level cache of every machine of the last ten years holds."""

ROWS = Tunable("rows", (32, 64, 128, 256, 512), "rows of x in a block: how long a run of y is written")
COLUMNS = Tunable("columns", (16, 64, 256), "columns of x in a block: how long a run of x is read")
LEAF = Tunable("leaf", (16, 32, 64), "side at which halving ends")
ODD_ROWS = Tunable("odd_rows", ("straight", "buffered"), "how a large y is written whose rows no vector is aligned to")
BUFFERED_ROWS = Tunable("buffered_rows", (128, 256, 512, 1024), "rows of x that wait in the buffer")
BUFFERED_COLUMNS = Tunable("buffered_columns", (16, 32, 64), "columns of x that wait in the buffer")

_SHARED = (cpu.VECTOR_BITS, cpu.STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)
_TILED_RULES = (
    *_RULES,
    Constraint(
        (ODD_ROWS.name, cpu.STREAM_FROM_KIB.name),
        lambda genome, _around: genome["odd_rows"] == "straight" or genome["stream_from_kib"] != 0,
        "odd_rows matters only where stores may go past the caches",
    ),
)
_BUFFER_RULES = (
    *_RULES,
    Constraint(
        (BUFFERED_ROWS.name, BUFFERED_COLUMNS.name),
        lambda genome, _around: int(genome["buffered_rows"]) * int(genome["buffered_columns"]) <= _BUFFER_FLOATS,
        "the buffer stays in the second-level cache",
    ),
)
_IDLE = "    (void)streaming;\n"

_SINGLY = """
// A block's edges: element by element.
static void singly(const float *x, float *y, int64_t M, int64_t N, int64_t m0, int64_t m1, int64_t n0, int64_t n1) {
    for (int64_t n = n0; n < n1; n++)
        for (int64_t m = m0; m < m1; m++) y[n * M + m] = x[m * N + n];
}
"""


def _source(genome: Genome, summary: str, rows: int, columns: int, functions: str) -> str:
    """Blocks of `rows` × `columns`, numbered along the rows of x, dealt to threads."""
    dispatch = cpu.row_dispatch(
        genome, "across * down", "ROWS * COLUMNS", "blocks(x, y, M, N, $first, $past, streaming)", _TRAFFIC
    )
    bits = int(genome["vector_bits"])
    return f"""// transpose, {genome["variant"]}: {summary}
#include <string.h>
{prelude(bits)}{turned(bits)}
enum {{ ROWS = {rows}, COLUMNS = {columns} }};

static inline int64_t least(int64_t a, int64_t b) {{ return a < b ? a : b; }}
{_SINGLY}{functions}
static void blocks(const float *x, float *y, int64_t M, int64_t N, int64_t first, int64_t past, int streaming) {{
    const int64_t across = (N + COLUMNS - 1) / COLUMNS;
    for (int64_t b = first; b < past; b++) {{
        const int64_t m0 = b / across * ROWS, n0 = b % across * COLUMNS;
        block(x, y, M, N, m0, least(m0 + ROWS, M), n0, least(n0 + COLUMNS, N), streaming);
    }}
}}

{_ENTRY} {{
    if (M == 1 || N == 1) {{
        memcpy(y, x, M * N * sizeof(float));
        return;
    }}
    const int64_t across = (N + COLUMNS - 1) / COLUMNS, down = (M + ROWS - 1) / ROWS;
{dispatch}}}
"""


def _tile(genome: Genome, put: str, name: str) -> str:
    """One tile of x, turned in registers and written to y."""
    lanes = int(genome["vector_bits"]) // 32
    return f"""
static inline void {name}(const float *x, float *y, int64_t M, int64_t N) {{
    vec v[LANES];
#pragma GCC unroll {lanes}
    for (int k = 0; k < LANES; k++) v[k] = load(x + k * N);
    turn(v);
#pragma GCC unroll {lanes}
    for (int k = 0; k < LANES; k++) {put}(y + k * M, v[k]);
}}
"""


def _tiles(genome: Genome, put: str) -> str:
    """`tiles_…`: the block from m0, n0 to m1, n1, tile by tile along the rows of x, as machines fetch ahead, then its
    edges."""
    name = f"tile_{put}"
    lanes = int(genome["vector_bits"]) // 32
    ahead = (
        ""
        if not genome["prefetch_bytes"]
        else "".join("    " + cpu.prefetches(genome, f"x + (m + {k}) * N + n", 1) for k in range(lanes))
    )
    return (
        _tile(genome, put, name)
        + f"""
static void tiles_{put}{_BLOCK_HEAD}) {{
    const int64_t m2 = m0 + (m1 - m0) / LANES * LANES, n2 = n0 + (n1 - n0) / LANES * LANES;
    for (int64_t m = m0; m < m2; m += LANES)
        for (int64_t n = n0; n < n2; n += LANES) {{
{ahead}            {name}(x + m * N + n, y + n * M + m, M, N);
        }}
    singly(x, y, M, N, m2, m1, n0, n1);
    singly(x, y, M, N, m0, m2, n2, n1);
}}
"""
    )


def _any_way(genome: Genome) -> str:
    """`tiles`: streamed where every row of y is aligned to a vector, and where it is not, if the genome says so, by way
    of a buffer."""
    streams, buffers = bool(genome["stream_from_kib"]), genome.get(ODD_ROWS.name) == "buffered"
    streaming = """    if (streaming && M % LANES == 0 && unaligned(y, LANES) == 0) {
        tiles_stream(x, y, M, N, m0, m1, n0, n1);
        return;
    }
"""
    buffering = """    if (streaming) {
        buffer_stream(x, y, M, N, m0, m1, n0, n1);
        return;
    }
"""
    ways = _tiles(genome, "store") + (_tiles(genome, "stream") if streams else "")
    return f"""{ways}{_buffer("stream") if buffers else ""}
static inline void tiles{_BLOCK_HEAD}, int streaming) {{
{streaming if streams else _IDLE}{buffering if buffers else ""}    tiles_store(x, y, M, N, m0, m1, n0, n1);
}}
"""


def _tiled(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""{_any_way(genome)}
#define block tiles
"""
    rows, columns = int(genome["rows"]), int(genome["columns"])
    return cpu.rendered(genome, around, _source(genome, TILED.summary, rows, columns, functions))


def _halving(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""{_any_way(genome)}
enum {{ LEAF = {genome["leaf"]} }};

// The longer side is halved until both fit a leaf: a good fit for every cache without knowing any.
static void block{_BLOCK_HEAD}, int streaming) {{
    if (m1 - m0 <= LEAF && n1 - n0 <= LEAF) {{
        tiles(x, y, M, N, m0, m1, n0, n1, streaming);
    }} else if (m1 - m0 >= n1 - n0) {{
        const int64_t middle = m0 + ((m1 - m0) / 2 + LEAF - 1) / LEAF * LEAF;
        block(x, y, M, N, m0, middle, n0, n1, streaming);
        block(x, y, M, N, middle, m1, n0, n1, streaming);
    }} else {{
        const int64_t middle = n0 + ((n1 - n0) / 2 + LEAF - 1) / LEAF * LEAF;
        block(x, y, M, N, m0, m1, n0, middle, streaming);
        block(x, y, M, N, m0, m1, middle, n1, streaming);
    }}
}}
"""
    return cpu.rendered(genome, around, _source(genome, HALVING.summary, _HALVED, _HALVED, functions))


def _buffered(genome: Genome, around: Surroundings) -> Rendered:
    rows, columns = int(genome["buffered_rows"]), int(genome["buffered_columns"])
    streams = bool(genome["stream_from_kib"])
    choice = "    if (streaming) buffer_stream(x, y, M, N, m0, m1, n0, n1);\n    else "
    functions = f"""{_tiles(genome, "store")}{_buffer("store")}{_buffer("stream") if streams else ""}
static inline void block{_BLOCK_HEAD}, int streaming) {{
{choice if streams else _IDLE + "    "}buffer_store(x, y, M, N, m0, m1, n0, n1);
}}
"""
    return cpu.rendered(genome, around, _source(genome, BUFFERED.summary, rows, columns, functions))


def _buffer(put: str) -> str:
    """`buffer_…`: a block by way of a buffer, written with `store`, or with `stream` after a head that aligns it."""
    head = "    for (const int64_t odd = unaligned(y, n); j < odd; j++) y[j] = kept[j];\n" if put == "stream" else ""
    return f"""
static void run_{put}(float *y, const float *kept, int64_t n) {{
    int64_t j = 0;
{head}    for (; j + LANES <= n; j += LANES) {put}(y + j, load(kept + j));
    for (; j < n; j++) y[j] = kept[j];
}}

// As many turned columns as fit wait in a buffer whose rows are long and aligned, whatever those of y are.
static void buffer_{put}{_BLOCK_HEAD}) {{
    enum {{ FIT = {_BUFFER_FLOATS} / ROWS, KEPT = COLUMNS < FIT ? COLUMNS : FIT }};
    float kept[ROWS * KEPT] __attribute__((aligned(64)));
    for (int64_t first = n0; first < n1; first += KEPT) {{
        const int64_t past = least(first + KEPT, n1);
        tiles_store(x + m0 * N + first, kept, ROWS, N, 0, m1 - m0, 0, past - first);
        for (int64_t n = first; n < past; n++) run_{put}(y + n * M + m0, kept + (n - first) * ROWS, m1 - m0);
    }}
}}
"""


TILED = Variant(
    "tiled",
    "blocks of tiles that are turned in registers and written to y",
    (*_SHARED, ROWS, COLUMNS, cpu.PREFETCH_BYTES, ODD_ROWS),
    all_hold(_TILED_RULES),
    _tiled,
    none_broken(_TILED_RULES),
)
HALVING = Variant(
    "halving",
    "the longer side is halved until tiles are left",
    (*_SHARED, LEAF, cpu.PREFETCH_BYTES),
    all_hold(_RULES),
    _halving,
    none_broken(_RULES),
)
BUFFERED = Variant(
    "buffered",
    "blocks are turned into a buffer, and its long rows streamed to y wherever they begin",
    (*_SHARED, BUFFERED_ROWS, BUFFERED_COLUMNS, cpu.PREFETCH_BYTES),
    all_hold(_BUFFER_RULES),
    _buffered,
    none_broken(_BUFFER_RULES),
)

SPACE = Space("transpose", Language.C.value, {variant.name: variant for variant in (TILED, HALVING, BUFFERED)})
