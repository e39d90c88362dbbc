"""C for one token of KDA, shared by the spaces of kda_decode and kda_decode_inplace.

With p = S~ᵀk and r = S~ᵀq, both found in one sweep over the old state, the update is u = β(v − p) and the output
r + (q·k)u: the second sweep only writes. It finds the state in cache, as far as the tile of the first one fits there.
"""

from collections.abc import Callable
from dataclasses import dataclass

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import exponential, maximum, prelude
from schemas.enums import Language
from schemas.work import Genome

_TRAFFIC = "2 * B * H * K * V * (int64_t)sizeof(float)"

COLUMNS = Tunable("column_vectors", (2, 4, 8), "vectors of columns that are swept together")
AHEAD = Tunable("next_head", (0, 1), "whether the writing sweep prefetches the next head's state")
ROWS = Tunable("rows", (2, 4, 8), "rows added to the predictions at once")

_SHARED = (cpu.VECTOR_BITS, cpu.STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, cpu.PREFETCH_BYTES)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)


@dataclass(frozen=True)
class Operation:
    """The one of the two: its entry, and where the old state is read from."""

    name: str
    signature: str
    old_state: str
    """`s0`, or `s` where the state is replaced in place."""

    def space(self) -> Space:
        """Every variant of it in C."""
        variants = (_column_tiles(self), _row_blocks(self), _pipelined(self))
        return Space(self.name, Language.C.value, {variant.name: variant for variant in variants})


def _source(operation: Operation, genome: Genome, summary: str, functions: str) -> str:
    bits = int(genome["vector_bits"])
    arguments = f"q, k, v, g, beta, {operation.old_state}, o, s, $first, $past, K, V, scale, streaming"
    dispatch = cpu.row_dispatch(genome, "B * H", "K * V", f"heads({arguments})", _TRAFFIC)
    return f"""// {operation.name}, {genome["variant"]}: {summary}
{prelude(bits)}{maximum(bits)}{exponential("poly6", bits)}{_HEAD}{functions}
{operation.signature} {{
{dispatch}}}
"""


_HEAD = """
// One head's token: e^g, its key, its scaled query, their product, and beta.
typedef struct {
    const float *decay, *key, *query;
    float met, beta;
} token;

static token opened(const float *q, const float *k, const float *g, float beta, float scale, float *decay,
                    float *query, int64_t K) {
    vec met = {0};
    float rest = 0.0f;
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) {
        const vec read = load(q + i) * scale;
        store(decay + i, power(load(g + i)));
        store(query + i, read);
        met += read * load(k + i);
    }
    if (i < K) store_some(decay + i, power(load_some(g + i, K - i, 0.0f)), K - i);
    for (; i < K; i++) {
        query[i] = q[i] * scale;
        rest += query[i] * k[i];
    }
    return (token){decay, k, query, sum_lanes(met) + rest, beta};
}

// A streaming store needs every row of the new state aligned to a vector.
static inline int may_stream(const float *s, int64_t V) {
    return V % LANES == 0 && (uintptr_t)s % sizeof(vec) == 0;
}

// The last columns, fewer than a vector.
static void edge(const token *t, const float *from, float *to, const float *v, float *o, int64_t n, int64_t K,
                 int64_t V) {
    float p[LANES] = {0}, r[LANES] = {0};
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < n; j++) {
            const float decayed = from[i * V + j] * t->decay[i];
            p[j] += decayed * t->key[i];
            r[j] += decayed * t->query[i];
        }
    for (int64_t j = 0; j < n; j++) {
        p[j] = t->beta * (v[j] - p[j]);
        o[j] = r[j] + t->met * p[j];
    }
    for (int64_t i = 0; i < K; i++)
        for (int64_t j = 0; j < n; j++) to[i * V + j] = from[i * V + j] * t->decay[i] + t->key[i] * p[j];
}
"""


def _variant(
    name: str,
    summary: str,
    tunables: tuple[Tunable, ...],
    operation: Operation,
    functions: Callable[[Genome], str],
) -> Variant:
    def render(genome: Genome, around: Surroundings) -> Rendered:
        return cpu.rendered(genome, around, _source(operation, genome, summary, functions(genome)))

    return Variant(name, summary, (*_SHARED, *tunables), all_hold(_RULES), render, none_broken(_RULES))


def _heads(body: str) -> str:
    return f"""
static void heads(const float *q, const float *k, const float *v, const float *g, const float *beta, const float *s0,
                  float *o, float *s, int64_t first, int64_t past, int64_t K, int64_t V, float scale, int streaming) {{
{body}}}
"""


def _each_head(body: str) -> str:
    return _heads(f"""    float decay[K], query[K];
    streaming = streaming && may_stream(s, V);
    for (int64_t h = first; h < past; h++) {{
        const token t = opened(q + h * K, k + h * K, g + h * K, beta[h], scale, decay, query, K);
        const float *from = s0 + h * K * V, *next = h + 1 < past ? from + K * V : from;
        float *to = s + h * K * V;
        (void)next;
        (void)streaming;
{body}    }}
""")


def _either(genome: Genome, name: str, arguments: str) -> str:
    """A call of `name`, or of its streaming form where the genome has one."""
    plain = f"{name}({arguments})"
    return f"streaming ? {name}_streaming({arguments}) : {plain};" if _streams(genome) else f"{plain};"


def _streams(genome: Genome) -> bool:
    return bool(genome["stream_from_kib"])


def _stores(genome: Genome) -> tuple[tuple[str, str], ...]:
    """(suffix of the function, name of its store) of each form that the genome needs."""
    return (("", "store"), ("_streaming", "stream")) if _streams(genome) else (("", "store"),)


def _ahead(genome: Genome, vectors: int, pointer: str = "next") -> str:
    """The writing sweep asks for the same columns of the next head: they are read from memory while it writes there."""
    if not genome["next_head"]:
        return ""
    lines = max(vectors * int(genome["vector_bits"]) // 512, 1)
    asked = (f"        __builtin_prefetch({pointer} + i * V + {16 * line}, 0, 2);" for line in range(lines))
    return "\n".join(asked) + "\n"


def _tile(genome: Genome, vectors: int) -> str:
    sums = cpu.repeated(vectors, "p$k = {0}, r$k = {0}", ", ")
    found = cpu.repeated(vectors, "p$k = t->beta * (load(v$+k) - p$k); store(o$+k, r$k + t->met * p$k);", "\n    ")
    reading = """        const vec x$k = load(row$+k) * d;
        p$k += x$k * key;
        r$k += x$k * query;"""
    return "".join(
        f"""
static void tile_{vectors}{suffix}(const token *t, const float *from, float *to, const float *next, const float *v,
                   float *o, int64_t K, int64_t V) {{
    vec {sums};
    (void)next;
    for (int64_t i = 0; i < K; i++) {{
        const float *row = from + i * V;
        const float d = t->decay[i], key = t->key[i], query = t->query[i];
{cpu.prefetches(genome, "row", vectors)}{cpu.repeated(vectors, reading)}
    }}
    {found}
    for (int64_t i = 0; i < K; i++) {{
        const float *row = from + i * V;
        const float d = t->decay[i], key = t->key[i];
{_ahead(genome, vectors)}{cpu.repeated(vectors, f"        {put}(to + i * V$+k, load(row$+k) * d + key * p$k);")}
    }}
}}
"""
        for suffix, put in _stores(genome)
    )


def _column_tiles(operation: Operation) -> Variant:
    def functions(genome: Genome) -> str:
        wide = int(genome["column_vectors"])
        call = "&t, from + j, to + j, next + j, v + h * V + j, o + h * V + j, K, V"
        body = f"""        int64_t j = 0;
        for (; j + {wide} * LANES <= V; j += {wide} * LANES)
            {_either(genome, f"tile_{wide}", call)}
        for (; j + LANES <= V; j += LANES)
            {_either(genome, "tile_1", call)}
        if (j < V) edge(&t, from + j, to + j, v + h * V + j, o + h * V + j, V - j, K, V);
"""
        return _tile(genome, wide) + _tile(genome, 1) + _each_head(body)

    summary = "columns of a head in tiles: a tile is read for its prediction, and again from cache to be written"
    return _variant("column_tiles", summary, (COLUMNS, AHEAD), operation, functions)


def _row_blocks(operation: Operation) -> Variant:
    def functions(genome: Genome) -> str:
        return _predict_rows(genome) + _write_rows(genome) + _each_head(_ROW_BLOCK_BODY + _written_rows(genome))

    summary = "whole rows of a head, a few at a time: predictions lie in cache, the state is read in its own order"
    return _variant("row_blocks", summary, (ROWS, AHEAD), operation, functions)


_ROW_BLOCK_BODY = """        float p[V], r[V];
        for (int64_t j = 0; j < V; j++) p[j] = r[j] = 0.0f;
        predict(&t, from, p, r, K, V);
        for (int64_t j = 0; j < V; j++) {
            p[j] = t.beta * (v[h * V + j] - p[j]);
            o[h * V + j] = r[j] + t.met * p[j];
        }
"""


def _written_rows(genome: Genome) -> str:
    return f"        {_either(genome, 'write_rows', '&t, from, to, next, p, K, V')}\n"


def _predict_rows(genome: Genome) -> str:
    rows = int(genome["rows"])

    def block(count: int) -> str:
        loads = "\n".join(
            f"            const vec x{n} = load(row + {n} * V + j) * t->decay[i + {n}];" for n in range(count)
        )
        into_p = " + ".join(f"x{n} * t->key[i + {n}]" for n in range(count))
        into_r = " + ".join(f"x{n} * t->query[i + {n}]" for n in range(count))
        return f"""        const float *row = from + i * V;
        int64_t j = 0;
        for (; j + LANES <= V; j += LANES) {{
{cpu.prefetches(genome, f"row + {count - 1} * V + j", count)}{loads}
            store(p + j, load(p + j) + ({into_p}));
            store(r + j, load(r + j) + ({into_r}));
        }}
        for (; j < V; j++)
            for (int64_t n = 0; n < {count}; n++) {{
                p[j] += row[n * V + j] * t->decay[i + n] * t->key[i + n];
                r[j] += row[n * V + j] * t->decay[i + n] * t->query[i + n];
            }}
"""

    return f"""
static void predict(const token *t, const float *from, float *p, float *r, int64_t K, int64_t V) {{
    int64_t i = 0;
    for (; i + {rows} <= K; i += {rows}) {{
{block(rows)}    }}
    for (; i < K; i++) {{
{block(1)}    }}
}}
"""


def _write_rows(genome: Genome) -> str:
    ahead = "            __builtin_prefetch(next + i * V + j, 0, 2);\n" if genome["next_head"] else ""
    return "".join(
        f"""
static void write_rows{suffix}(const token *t, const float *from, float *to, const float *next, const float *u,
                       int64_t K, int64_t V) {{
    (void)next;
    for (int64_t i = 0; i < K; i++) {{
        int64_t j = 0;
        for (; j + LANES <= V; j += LANES) {{
{ahead}            {put}(to + i * V + j, load(from + i * V + j) * t->decay[i] + t->key[i] * load(u + j));
        }}
        for (; j < V; j++) to[i * V + j] = from[i * V + j] * t->decay[i] + t->key[i] * u[j];
    }}
}}
"""
        for suffix, put in _stores(genome)
    )


def _pipelined(operation: Operation) -> Variant:
    summary = (
        "one loop writes a tile of columns and reads the next tile, so that memory is read and written all the time"
    )
    return _variant("pipelined", summary, (COLUMNS,), operation, _pipelined_functions)


def _pipelined_functions(genome: Genome) -> str:
    wide = int(genome["column_vectors"])
    call = "&t, from + j, to + j, from + j, v + h * V + j, o + h * V + j, K, V"
    step = _either(genome, "both", "&t, &then, from + j, to + j, ahead, u, p, r, K, V")
    rest = f"""        for (; j + LANES <= V; j += LANES)
            {_either(genome, "tile_1", call)}
        if (j < V) edge(&t, from + j, to + j, v + h * V + j, o + h * V + j, V - j, K, V);
"""
    body = f"""    enum {{ WIDE = {wide} * LANES }};
    float gates[2][2 * K], p[WIDE], r[WIDE], u[WIDE];
    const int64_t tiles = V / WIDE;
    streaming = streaming && may_stream(s, V);
    token t = opened(q + first * K, k + first * K, g + first * K, beta[first], scale, gates[0], gates[0] + K, K);
    if (tiles) look(&t, s0 + first * K * V, p, r, K, V);
    for (int64_t h = first; h < past; h++) {{
        const int64_t n = h + 1 < past ? h + 1 : h;
        const float *from = s0 + h * K * V;
        float *to = s + h * K * V, *gate = gates[(h + 1 - first) % 2];
        const token follower = opened(q + n * K, k + n * K, g + n * K, beta[n], scale, gate, gate + K, K);
        int64_t j = 0;
        (void)streaming;
        for (int64_t tile = 0; tile < tiles; tile++, j += WIDE) {{
            const int last = tile + 1 == tiles;
            const token then = last ? follower : t;
            const float *ahead = last ? s0 + n * K * V : from + j + WIDE;
            for (int64_t c = 0; c < WIDE; c++) {{
                u[c] = t.beta * (v[h * V + j + c] - p[c]);
                o[h * V + j + c] = r[c] + t.met * u[c];
            }}
            {step}
        }}
{rest}        t = follower;
    }}
"""
    guarded = "    if (first >= past) return;\n" + body
    genome_for_rest = genome | {"next_head": 0}
    return _tile(genome_for_rest, 1) + _look(genome, wide) + _both(genome, wide) + _heads(guarded)


def _summed(vectors: int) -> str:
    return cpu.repeated(
        vectors,
        """        const vec x$k = load(row$+k) * d;
        p$k += x$k * key;
        r$k += x$k * query;""",
    )


def _look(genome: Genome, vectors: int) -> str:
    return f"""
// The sums of the first tile: nothing is written beside it.
static void look(const token *t, const float *from, float *p, float *r, int64_t K, int64_t V) {{
    vec {cpu.repeated(vectors, "p$k = {0}, r$k = {0}", ", ")};
    for (int64_t i = 0; i < K; i++) {{
        const float *row = from + i * V;
        const float d = t->decay[i], key = t->key[i], query = t->query[i];
{cpu.prefetches(genome, "row", vectors)}{_summed(vectors)}
    }}
    {cpu.repeated(vectors, "store(p$+k, p$k); store(r$+k, r$k);", " ")}
}}
"""


def _both(genome: Genome, vectors: int) -> str:
    return "".join(
        f"""
// Writes a tile whose update is u, and sums the next one into p and r.
static void both{suffix}(const token *t, const token *then, const float *from, float *to, const float *ahead,
                 const float *u, float *p, float *r, int64_t K, int64_t V) {{
    vec {cpu.repeated(vectors, "p$k = {0}, r$k = {0}, u$k = load(u$+k)", ", ")};
    for (int64_t i = 0; i < K; i++) {{
        const float *row = ahead + i * V, *old = from + i * V;
        const float d = then->decay[i], key = then->key[i], query = then->query[i];
        const float before = t->decay[i], by = t->key[i];
{cpu.prefetches(genome, "row", vectors)}{_summed(vectors)}
{cpu.repeated(vectors, f"        {put}(to + i * V$+k, load(old$+k) * before + by * u$k);")}
    }}
    {cpu.repeated(vectors, "store(p$+k, p$k); store(r$+k, r$k);", " ")}
}}
"""
        for suffix, put in _stores(genome)
    )
