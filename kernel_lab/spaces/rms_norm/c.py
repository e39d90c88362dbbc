"""rms_norm in C: read a row twice, several rows at once, or write one row while the next is being read."""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import prelude
from schemas.enums import Language
from schemas.work import Genome

_ENTRY = "void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)"
_TRAFFIC = "2 * T * H * (int64_t)sizeof(float)"
_UNROLL_LOOPS = "-funroll-loops"

ACCUMULATORS = Tunable("accumulators", (2, 4, 8), "independent sums of squares")
UNROLL = Tunable("unroll", (1, 4), "vectors written per iteration")
FLAGS = Tunable("flags", ("", _UNROLL_LOOPS), "compiler flags beyond -O3")
ROWS = Tunable("rows", (2, 4), "rows read together, sharing each load of w")

_SHARED = (cpu.VECTOR_BITS, cpu.STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, cpu.PREFETCH_BYTES)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)
_FLAG_RULES = (
    cpu.nothing_forbidden((_UNROLL_LOOPS, FLAGS.name, _UNROLL_LOOPS)),
    Constraint(
        (UNROLL.name, FLAGS.name),
        lambda genome, _around: genome["unroll"] == 1 or genome["flags"] == "",
        "unrolled by hand or by the compiler, not both",
    ),
)


def _write_row(unroll: int, put: str, name: str) -> str:
    """A row written with `put`: `store`, or `stream` after a head that aligns y."""
    write = f"{put}(y + j$+k, load(x + j$+k) * r * load(w + j$+k));"
    head = "    for (; j < unaligned(y, H); j++) y[j] = x[j] * r * w[j];\n" if put == "stream" else ""
    block = f"""    for (; j + {unroll} * LANES <= H; j += {unroll} * LANES) {{
{cpu.repeated(unroll, "        " + write)}
    }}
"""
    return f"""
static void {name}(const float *x, const float *w, float *y, int64_t H, float r) {{
    int64_t j = 0;
{head}{block if unroll > 1 else ""}    for (; j + LANES <= H; j += LANES) {write.replace("$+k", "")}
    for (; j < H; j++) y[j] = x[j] * r * w[j];
}}
"""


def _writers(genome: Genome, unroll: int) -> str:
    plain = _write_row(unroll, "store", "write_row")
    streaming = _write_row(unroll, "stream", "write_row_streaming") if genome["stream_from_kib"] else ""
    choice = "    if (streaming) write_row_streaming(x, w, y, H, r);\n    else " if streaming else "    "
    return f"""{plain}{streaming}
static void put_row(const float *x, const float *w, float *y, int64_t H, float r, int streaming) {{
{choice}write_row(x, w, y, H, r);
}}
"""


def _reciprocal_rms(genome: Genome, accumulators: int) -> str:
    return f"""
static float reciprocal_rms(const float *x, int64_t H, float eps) {{
    vec {cpu.repeated(accumulators, "a$k = {0}", ", ")};
    int64_t j = 0;
    for (; j + {accumulators} * LANES <= H; j += {accumulators} * LANES) {{
{cpu.prefetches(genome, "x + j", accumulators)}{
        cpu.repeated(accumulators, "        a$k += load(x + j$+k) * load(x + j$+k);")
    }
    }}
    for (; j + LANES <= H; j += LANES) a0 += load(x + j) * load(x + j);
    float squares = sum_lanes({cpu.repeated(accumulators, "a$k", " + ")});
    for (; j < H; j++) squares += x[j] * x[j];
    return 1.0f / sqrtf(squares / (float)H + eps);
}}
"""


_ROWS_HEAD = (
    "static void rows(const float *x, const float *w, float *y, int64_t first, int64_t past, int64_t H, float eps,\n"
    "                 int streaming)"
)


def _source(genome: Genome, summary: str, functions: str) -> str:
    dispatch = cpu.row_dispatch(genome, "T", "H", "rows(x, w, y, $first, $past, H, eps, streaming)", _TRAFFIC)
    return f"""// rms_norm, {genome["variant"]}: {summary}
{prelude(int(genome["vector_bits"]))}{functions}
{_ENTRY} {{
{dispatch}}}
"""


def _two_pass(genome: Genome, around: Surroundings) -> Rendered:
    functions = (
        _reciprocal_rms(genome, int(genome["accumulators"]))
        + _writers(genome, int(genome["unroll"]))
        + f"""
{_ROWS_HEAD} {{
    for (int64_t i = first; i < past; i++)
        put_row(x + i * H, w, y + i * H, H, reciprocal_rms(x + i * H, H, eps), streaming);
}}
"""
    )
    flags = (str(genome["flags"]),) if genome["flags"] else ()
    return cpu.rendered(genome, around, _source(genome, TWO_PASS.summary, functions), flags)


def _row_block(genome: Genome, around: Surroundings) -> Rendered:
    rows = int(genome["rows"])
    functions = (
        _reciprocal_rms(genome, 4)
        + _writers(genome, int(genome["unroll"]))
        + _block_scales(genome, rows)
        + _block_write(rows, "store", "write_block")
        + (_block_write(rows, "stream", "write_block_streaming") if genome["stream_from_kib"] else "")
        + _block_rows(genome, rows)
    )
    return cpu.rendered(genome, around, _source(genome, ROW_BLOCK.summary, functions))


def _block_scales(genome: Genome, rows: int) -> str:
    squares = "        vec v$k = load(x + $k * H + j);\n        a$k += v$k * v$k;"
    ahead = "".join(cpu.prefetches(genome, f"x + {k} * H + j", 1) for k in range(rows))
    tail = "        s$k += x[$k * H + j] * x[$k * H + j];"
    return f"""
static void block_scales(const float *x, int64_t H, float eps, float *r) {{
    vec {cpu.repeated(rows, "a$k = {0}", ", ")};
    int64_t j = 0;
    for (; j + LANES <= H; j += LANES) {{
{ahead}{cpu.repeated(rows, squares)}
    }}
    float {cpu.repeated(rows, "s$k = sum_lanes(a$k)", ", ")};
    for (; j < H; j++) {{
{cpu.repeated(rows, tail)}
    }}
{cpu.repeated(rows, "    r[$k] = 1.0f / sqrtf(s$k / (float)H + eps);")}
}}
"""


def _block_write(rows: int, put: str, name: str) -> str:
    """Rows of a block written together; streaming needs H to be a whole number of vectors, so that all align alike."""
    single = cpu.repeated(rows, "        y[$k * H + j] = x[$k * H + j] * r[$k] * w[j];")
    head = f"    for (; j < unaligned(y, H); j++) {{\n{single}\n    }}\n" if put == "stream" else ""
    return f"""
static void {name}(const float *x, const float *w, float *y, int64_t H, const float *r) {{
    int64_t j = 0;
{head}    for (; j + LANES <= H; j += LANES) {{
        const vec weight = load(w + j);
{cpu.repeated(rows, f"        {put}(y + $k * H + j, load(x + $k * H + j) * r[$k] * weight);")}
    }}
    for (; j < H; j++) {{
{single}
    }}
}}
"""


def _block_rows(genome: Genome, rows: int) -> str:
    stream = """        if (streaming && H % LANES == 0) write_block_streaming(x + i * H, w, y + i * H, H, r);
        else if (streaming)
            for (int k = 0; k < ROWS; k++) put_row(x + (i + k) * H, w, y + (i + k) * H, H, r[k], streaming);
        else """
    return f"""
enum {{ ROWS = {rows} }};

{_ROWS_HEAD} {{
    int64_t i = first;
    for (; i + ROWS <= past; i += ROWS) {{
        float r[ROWS];
        block_scales(x + i * H, H, eps, r);
{stream if genome["stream_from_kib"] else "        "}write_block(x + i * H, w, y + i * H, H, r);
    }}
    for (; i < past; i++)
        put_row(x + i * H, w, y + i * H, H, reciprocal_rms(x + i * H, H, eps), streaming);
}}
"""


def _pipelined(genome: Genome, around: Surroundings) -> Rendered:
    unroll = int(genome["unroll"])
    functions = (
        _reciprocal_rms(genome, 4)
        + _writers(genome, unroll)
        + _write_and_read(genome, unroll, "store", "write_and_read")
        + (_write_and_read(genome, unroll, "stream", "write_and_read_streaming") if genome["stream_from_kib"] else "")
        + _pipelined_rows(genome)
    )
    return cpu.rendered(genome, around, _source(genome, PIPELINED.summary, functions))


def _write_and_read(genome: Genome, unroll: int, put: str, name: str) -> str:
    step = f"""        const vec n$k = load(next + j$+k);
        a$k += n$k * n$k;
        {put}(y + j$+k, load(x + j$+k) * r * load(w + j$+k));"""
    single = """        squares += next[j] * next[j];
        y[j] = x[j] * r * w[j];
"""
    head = f"    for (; j < unaligned(y, H); j++) {{\n{single}    }}\n" if put == "stream" else ""
    return f"""
// Writes a row and gives back the sum of squares of the next one.
static float {name}(const float *x, const float *next, const float *w, float *y, int64_t H, float r) {{
    vec {cpu.repeated(unroll, "a$k = {0}", ", ")};
    float squares = 0.0f;
    int64_t j = 0;
{head}    for (; j + {unroll} * LANES <= H; j += {unroll} * LANES) {{
{cpu.prefetches(genome, "next + j", unroll)}{cpu.repeated(unroll, step)}
    }}
    for (; j < H; j++) {{
{single}    }}
    return squares + sum_lanes({cpu.repeated(unroll, "a$k", " + ")});
}}
"""


def _pipelined_rows(genome: Genome) -> str:
    plain = "write_and_read(x + i * H, x + (i + 1) * H, w, y + i * H, H, r)"
    choice = (
        f"streaming ? {plain.replace('read(', 'read_streaming(')}\n                                        : {plain}"
    )
    return f"""
{_ROWS_HEAD} {{
    if (first >= past) return;
    float r = reciprocal_rms(x + first * H, H, eps);
    for (int64_t i = first; i + 1 < past; i++) {{
        const float squares = {choice if genome["stream_from_kib"] else plain};
        r = 1.0f / sqrtf(squares / (float)H + eps);
    }}
    put_row(x + (past - 1) * H, w, y + (past - 1) * H, H, r, streaming);
}}
"""


TWO_PASS = Variant(
    "two_pass",
    "a row is read for its squares, and again from cache to be written",
    (*_SHARED, ACCUMULATORS, UNROLL, FLAGS),
    all_hold(_RULES + _FLAG_RULES),
    _two_pass,
    none_broken(_RULES + _FLAG_RULES),
)
ROW_BLOCK = Variant(
    "row_block",
    "a few rows are read together, then written together, so that w is loaded once for all",
    (*_SHARED, ROWS, UNROLL),
    all_hold(_RULES),
    _row_block,
    none_broken(_RULES),
)
PIPELINED = Variant(
    "pipelined",
    "one loop writes a row and sums the squares of the next, so that memory is read and written all the time",
    (*_SHARED, UNROLL),
    all_hold(_RULES),
    _pipelined,
    none_broken(_RULES),
)

SPACE = Space("rms_norm", Language.C.value, {variant.name: variant for variant in (TWO_PASS, ROW_BLOCK, PIPELINED)})
