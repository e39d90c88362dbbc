"""kda_prefill in C: token by token in one sweep of a tile of the state, or a few tokens at once in two.

A block of C tokens reads the state once for all of its predictions and outputs and writes it once. With P_c the decays
from the block's start through token c, and D_cj those after token j through c (products, never quotients: nothing can
overflow):

    u_c = β_c (v_c − (P_c k_c)ᵀS − Σ_{j<c} (k_c·D_cj k_j) u_j);   o_c = (P_c q_c)ᵀS + Σ_{j≤c} (q_c·D_cj k_j) u_j
    S ← P_C S + Σ_j (D_Cj k_j) u_jᵀ

The products of keys and queries are formed once a head, the rest once a tile of columns.
"""

from kernel_lab.spaces import cpu
from kernel_lab.spaces.constraint import Constraint, all_hold, none_broken
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Tunable, Variant
from kernel_lab.spaces.vectors import exponential, maximum, prelude
from kernel_lab.workloads.kda_prefill import KDA_PREFILL
from schemas.enums import Language
from schemas.work import Genome

_TRAFFIC = "B * H * (2 * K * V + T * (3 * K + 2 * V + 1)) * (int64_t)sizeof(float)"

TOKENS = Tunable("block_tokens", (2, 4, 8), "tokens that read and write the state together")
COLUMNS = Tunable("column_vectors", (1, 2, 4, 8), "vectors of columns in a tile of the state")
SEGMENT = Tunable("segment_tokens", (32, 64, 128), "tokens over which a tile stays in the first-level cache")
STREAM_FROM_KIB = Tunable("stream_from_kib", (0, 1024), "the last state is written past the caches from this size on")

_SHARED = (cpu.VECTOR_BITS, STREAM_FROM_KIB, cpu.THREADS, cpu.PARALLEL_FROM_KIB, cpu.SCHEDULE, COLUMNS, SEGMENT)
_RULES = (
    cpu.WIDTH_FITS,
    cpu.THREADS_FIT,
    cpu.idle_when_serial(cpu.PARALLEL_FROM_KIB),
    cpu.idle_when_serial(cpu.SCHEDULE),
)
_SUMS_IN_REGISTERS = Constraint(
    (COLUMNS.name, TOKENS.name),
    lambda genome, _around: 2 * int(genome[COLUMNS.name]) * int(genome[TOKENS.name]) <= 24,
    "the sums of a block stay in registers, of which there are 32 at most",
)
_WIDE_ENOUGH = Constraint(
    (COLUMNS.name,),
    lambda genome, _around: int(genome[COLUMNS.name]) >= 2,
    "one vector of columns would wait for its own sums",
)


def _source(genome: Genome, summary: str, functions: str, body: str) -> str:
    bits, wide = int(genome["vector_bits"]), int(genome["column_vectors"])
    call = "heads(q, k, v, g, beta, s0, o, s, $first, $past, T, H, K, V, scale, streaming)"
    dispatch = cpu.row_dispatch(genome, "B * H", "T * (K + V)", call, _TRAFFIC)
    return f"""// kda_prefill, {genome["variant"]}: {summary}
#include <stdlib.h>
{prelude(bits)}{maximum(bits)}{exponential("poly6", bits)}
enum {{ WIDE = {wide} * LANES, SEGMENT = {genome["segment_tokens"]} }};
{_state(genome)}{functions}{_heads(body)}
{KDA_PREFILL.signature()} {{
{dispatch}}}
"""


def _state(genome: Genome) -> str:
    """A head's state goes into tiles of WIDE columns, the last filled up with zeros, and comes out again."""
    streamed = """        if (streaming) {
            for (int64_t j = 0; j < V; j += LANES)
    stream(s + i * V + j, load(state + (j / WIDE * K + i) * WIDE + j % WIDE));
            continue;
        }
"""
    return f"""
static void open_state(const float *s0, float *state, int64_t K, int64_t V) {{
    for (int64_t first = 0; first < V; first += WIDE)
        for (int64_t i = 0; i < K; i++)
            for (int64_t j = first; j < first + WIDE; j++) *state++ = j < V ? s0[i * V + j] : 0.0f;
}}

static void close_state(const float *state, float *s, int64_t K, int64_t V, int streaming) {{
    (void)streaming;
    for (int64_t i = 0; i < K; i++) {{
{streamed if genome["stream_from_kib"] else ""}        for (int64_t j = 0; j < V; j++)
            s[i * V + j] = state[(j / WIDE * K + i) * WIDE + j % WIDE];
    }}
}}

// The last columns of some tokens, for code that takes WIDE of them.
static void widened(const float *from, int64_t stride, float *to, int64_t tokens, int64_t n) {{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < WIDE; j++) to[t * WIDE + j] = j < n ? from[t * stride + j] : 0.0f;
}}

static void narrowed(const float *from, float *to, int64_t stride, int64_t tokens, int64_t n) {{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t j = 0; j < n; j++) to[t * stride + j] = from[t * WIDE + j];
}}
"""


def _heads(body: str) -> str:
    return f"""
static void heads(const float *q, const float *k, const float *v, const float *g, const float *beta, const float *s0,
                  float *o, float *s, int64_t first, int64_t past, int64_t T, int64_t H, int64_t K, int64_t V,
                  float scale, int streaming) {{
    if (first >= past) return;
    const int64_t tiles = (V + WIDE - 1) / WIDE, groups = (K + LANES - 1) / LANES;
    const size_t floats = (size_t)(tiles * K * WIDE + SCRATCH(groups));
    float *state = aligned_alloc(64, (floats * sizeof(float) + 63) / 64 * 64);
    float *scratch = state + tiles * K * WIDE;
    streaming = streaming && V % LANES == 0 && (uintptr_t)s % sizeof(vec) == 0;
    for (int64_t h = first; h < past; h++) {{
        open_state(s0 + h * K * V, state, K, V);
        for (int64_t start = 0; start < T; start += SEGMENT) {{
            const int64_t tokens = T - start < SEGMENT ? T - start : SEGMENT;
            const int64_t at = (h / H * T + start) * H + h % H;
{body}        }}
        close_state(state, s + h * K * V, K, V, streaming);
    }}
    free(state);
}}
"""


# ---- blocks of tokens ------------------------------------------------------------------------------------------------


def _blocks(genome: Genome, around: Surroundings) -> Rendered:
    tokens = int(genome["block_tokens"])
    functions = f"""
// Coefficients of a block: per group of LANES rows those of all keys and queries for the old state, of all keys for the
// new one, and the decay; then the products of keys with keys and of queries with keys.
enum {{ TOKENS = {tokens}, GROUP = (3 * TOKENS + 1) * LANES, MET = 2 * TOKENS * TOKENS }};
#define SCRATCH(groups) (SEGMENT / TOKENS * ((groups) * GROUP + MET))
{_PREPARE}{_block(genome)}{_TILE}"""
    body = """            float *met = scratch + SEGMENT / TOKENS * groups * GROUP;
            for (int64_t b = 0; b * TOKENS < tokens; b++) {
                const int64_t here = at + b * TOKENS * H, live = tokens - b * TOKENS;
                prepare(q + here * K, k + here * K, g + here * K, H * K, live < TOKENS ? live : TOKENS, scale,
                        scratch + b * groups * GROUP, met + b * MET, K);
            }
            for (int64_t j = 0; j < V; j += WIDE)
                tile(scratch, met, v + at * V + j, o + at * V + j, beta + at, H, state + j * K, tokens, K, V, V - j);
"""
    return cpu.rendered(genome, around, _source(genome, BLOCKS.summary, functions, body))


_PREPARE = """
// Tokens from `live` on are nothing: no decay, and zeros for keys and queries.
static void prepare(const float *q, const float *k, const float *g, int64_t stride, int64_t live, float scale,
                    float *to, float *met, int64_t K) {
    vec keys[TOKENS][TOKENS], queries[TOKENS][TOKENS];
    for (int c = 0; c < TOKENS; c++)
        for (int j = 0; j < TOKENS; j++) keys[c][j] = queries[c][j] = (vec){0};
    for (int64_t i = 0; i < K; i += LANES, to += GROUP) {
        const int64_t n = K - i;
        vec decay[TOKENS], key[TOKENS], query[TOKENS], run = (vec){0} + 1.0f;
        for (int c = 0; c < TOKENS; c++) {
            const int64_t at = c * stride + i;
            const vec zero = {0};
            decay[c] = power(c >= live ? zero : n < LANES ? load_some(g + at, n, 0.0f) : load(g + at));
            key[c] = c >= live ? zero : n < LANES ? load_some(k + at, n, 0.0f) : load(k + at);
            query[c] = (c >= live ? zero : n < LANES ? load_some(q + at, n, 0.0f) : load(q + at)) * scale;
            run *= decay[c];
            store(to + c * LANES, key[c] * run);
            store(to + (TOKENS + c) * LANES, query[c] * run);
        }
        store(to + 3 * TOKENS * LANES, run);
        for (int j = 0; j < TOKENS; j++) {
            vec left = key[j];
            queries[j][j] += query[j] * left;
            for (int c = j + 1; c < TOKENS; c++) {
                left *= decay[c];
                keys[c][j] += key[c] * left;
                queries[c][j] += query[c] * left;
            }
            store(to + (2 * TOKENS + j) * LANES, left);
        }
    }
    for (int c = 0; c < TOKENS; c++)
        for (int j = 0; j <= c; j++) {
            met[c * TOKENS + j] = sum_lanes(keys[c][j]);
            met[TOKENS * TOKENS + c * TOKENS + j] = sum_lanes(queries[c][j]);
        }
}
"""

_TILE = """
// One tile of columns over a segment. Whole blocks of whole tiles are read and written where they lie.
static void tile(const float *from, const float *met, const float *v, float *o, const float *beta, int64_t H,
                 float *state, int64_t tokens, int64_t K, int64_t V, int64_t n) {
    const int64_t groups = (K + LANES - 1) / LANES;
    for (int64_t t = 0; t < tokens; t += TOKENS, from += groups * GROUP, met += MET) {
        const int64_t live = tokens - t < TOKENS ? tokens - t : TOKENS;
        float rates[TOKENS] = {0};
        for (int64_t c = 0; c < live; c++) rates[c] = beta[(t + c) * H];
        if (live == TOKENS && n >= WIDE) {
            block(from, met, v + t * H * V, o + t * H * V, H * V, rates, state, K);
        } else {
            float values[TOKENS * WIDE] = {0}, out[TOKENS * WIDE];
            widened(v + t * H * V, H * V, values, live, n);
            block(from, met, values, out, WIDE, rates, state, K);
            narrowed(out, o + t * H * V, H * V, live, n < WIDE ? n : WIDE);
        }
    }
}
"""


def _block(genome: Genome) -> str:
    tokens, wide = int(genome["block_tokens"]), int(genome["column_vectors"])
    pairs = [(c, n) for c in range(tokens) for n in range(wide)]
    zeros = ", ".join(f"p{c}_{n} = {{0}}, r{c}_{n} = {{0}}" for c, n in pairs)
    loads = " ".join(f"const vec x{n} = load(row + {n} * LANES);" for n in range(wide))
    sums = "\n".join(
        f"            p{c}_{n} += x{n} * a[{c} * LANES]; r{c}_{n} += x{n} * a[(TOKENS + {c}) * LANES];"
        for c, n in pairs
    )
    writes = "\n".join(f"            store(row + {n} * LANES, {_updated(tokens, n)});" for n in range(wide))
    return f"""
static void block(const float *from, const float *met, const float *v, float *o, int64_t stride, const float *beta,
                  float *state, int64_t K) {{
    const float *of_queries = met + TOKENS * TOKENS;
    vec {zeros};
    for (int64_t i = 0; i < K; i += LANES)
        for (int64_t lane = 0; lane < LANES && i + lane < K; lane++) {{
            const float *row = state + (i + lane) * WIDE, *a = from + i * (GROUP / LANES) + lane;
            {loads}
{sums}
        }}
{_solved(tokens, wide)}
    for (int64_t i = 0; i < K; i += LANES)
        for (int64_t lane = 0; lane < LANES && i + lane < K; lane++) {{
            float *row = state + (i + lane) * WIDE;
            const float *a = from + i * (GROUP / LANES) + lane, *w = a + 2 * TOKENS * LANES;
{writes}
        }}
}}
"""


def _solved(tokens: int, wide: int) -> str:
    """p becomes the update u token by token, and r the output."""
    lines = []
    for c in range(tokens):
        for n in range(wide):
            before = "".join(f" - met[{c} * TOKENS + {j}] * p{j}_{n}" for j in range(c))
            read = "".join(f" + of_queries[{c} * TOKENS + {j}] * p{j}_{n}" for j in range(c + 1))
            at = f"{c} * stride + {n} * LANES"
            lines.append(f"    p{c}_{n} = beta[{c}] * (load(v + {at}) - p{c}_{n}{before});")
            lines.append(f"    store(o + {at}, r{c}_{n}{read});")
    return "\n".join(lines)


def _updated(tokens: int, n: int) -> str:
    terms = "".join(f" + w[{c} * LANES] * p{c}_{n}" for c in range(tokens))
    return f"load(row + {n} * LANES) * a[3 * TOKENS * LANES]{terms}"


# ---- token by token --------------------------------------------------------------------------------------------------


def _recurrent(genome: Genome, around: Surroundings) -> Rendered:
    functions = f"""
// Per token of a segment its decays and its scaled query.
#define SCRATCH(groups) (2 * SEGMENT * (groups) * LANES)

static void prepare(const float *q, const float *g, float scale, float *decay, float *query, int64_t K) {{
    int64_t i = 0;
    for (; i + LANES <= K; i += LANES) {{
        store(decay + i, power(load(g + i)));
        store(query + i, load(q + i) * scale);
    }}
    if (i < K) store_some(decay + i, power(load_some(g + i, K - i, 0.0f)), K - i);
    for (; i < K; i++) query[i] = q[i] * scale;
}}
{_steps(genome)}{_SEGMENT}"""
    body = """            const int64_t stride = groups * LANES;
            float *decays = scratch, *queries = scratch + SEGMENT * stride;
            for (int64_t t = 0; t < tokens; t++)
                prepare(q + (at + t * H) * K, g + (at + t * H) * K, scale, decays + t * stride, queries + t * stride,
                        K);
            for (int64_t j = 0; j < V; j += WIDE)
                segment(k + at * K, decays, queries, stride, v + at * V + j, o + at * V + j, beta + at, H,
                        state + j * K, tokens, K, V, V - j);
"""
    return cpu.rendered(genome, around, _source(genome, RECURRENT.summary, functions, body))


def _steps(genome: Genome) -> str:
    wide = int(genome["column_vectors"])
    predicted = cpu.repeated(wide, "p$k = {0}", ", ")
    kept = cpu.repeated(wide, "    store(p$+k, p$k);")
    return f"""
// The state is decayed for the first token of a segment, and its prediction summed.
static void decay_first(const float *key, const float *decay, float *state, float *p, int64_t K) {{
    vec {predicted};
    for (int64_t i = 0; i < K; i++) {{
        float *row = state + i * WIDE;
{cpu.repeated(wide, "        const vec x$k = load(row$+k) * decay[i]; p$k += x$k * key[i]; store(row$+k, x$k);")}
    }}
{kept}
}}

// One sweep: the update of this token is written and read out, and the state decayed and summed for the next one.
static void sweep(const float *key, const float *query, const float *next_key, const float *next_decay, const float *u,
                  float *state, float *p, float *o, int64_t K) {{
    vec {predicted}, {cpu.repeated(wide, "r$k = {0}", ", ")};
    const vec {cpu.repeated(wide, "u$k = load(u$+k)", ", ")};
    for (int64_t i = 0; i < K; i++) {{
        float *row = state + i * WIDE;
{cpu.repeated(wide, "        vec x$k = load(row$+k) + u$k * key[i]; r$k += x$k * query[i];")}
{cpu.repeated(wide, "        x$k *= next_decay[i]; p$k += x$k * next_key[i]; store(row$+k, x$k);")}
    }}
{kept}
{cpu.repeated(wide, "    store(o$+k, r$k);")}
}}

// The last sweep of a segment leaves the state undecayed.
static void sweep_last(const float *key, const float *query, const float *u, float *state, float *o, int64_t K) {{
    vec {cpu.repeated(wide, "r$k = {0}", ", ")};
    const vec {cpu.repeated(wide, "u$k = load(u$+k)", ", ")};
    for (int64_t i = 0; i < K; i++) {{
        float *row = state + i * WIDE;
{cpu.repeated(wide, "        const vec x$k = load(row$+k) + u$k * key[i]; r$k += x$k * query[i]; store(row$+k, x$k);")}
    }}
{cpu.repeated(wide, "    store(o$+k, r$k);")}
}}
"""


_SEGMENT = """
static void segment(const float *k, const float *decays, const float *queries, int64_t stride, const float *v, float *o,
                    const float *beta, int64_t H, float *state, int64_t tokens, int64_t K, int64_t V, int64_t n) {
    float p[WIDE], u[WIDE], out[WIDE];
    decay_first(k, decays, state, p, K);
    for (int64_t t = 0; t < tokens; t++) {
        const float *key = k + t * H * K, *query = queries + t * stride;
        widened(v + t * H * V, 0, u, 1, n);
        for (int64_t j = 0; j < WIDE; j++) u[j] = beta[t * H] * (u[j] - p[j]);
        if (t + 1 < tokens)
            sweep(key, query, key + H * K, decays + (t + 1) * stride, u, state, p, out, K);
        else
            sweep_last(key, query, u, state, out, K);
        narrowed(out, o + t * H * V, 0, 1, n < WIDE ? n : WIDE);
    }
}
"""


BLOCKS = Variant(
    "token_blocks",
    "a few tokens read the state together and write it together; their own products are formed beside it",
    (*_SHARED, TOKENS),
    all_hold((*_RULES, _SUMS_IN_REGISTERS)),
    _blocks,
    none_broken((*_RULES, _SUMS_IN_REGISTERS)),
)
RECURRENT = Variant(
    "recurrent",
    "token by token: one sweep of a tile writes this token's update and sums the next one's prediction",
    _SHARED,
    all_hold((*_RULES, _WIDE_ENOUGH)),
    _recurrent,
    none_broken((*_RULES, _WIDE_ENOUGH)),
)

SPACE = Space(KDA_PREFILL.name, Language.C.value, {variant.name: variant for variant in (BLOCKS, RECURRENT)})
