"""Portable C for vectors of a chosen width: gcc's vector extensions, with the x86 instructions they cannot name.

`immintrin.h` is not included: it costs 0.2 s a compile (toolbox.md). Pointers are aligned to the element only.
"""


def prelude(bits: int) -> str:
    """Types, loads, stores, streaming stores and lane sums for vectors of `bits` bits."""
    lanes = bits // 32
    return f"""#include <math.h>
#include <stdint.h>

extern int omp_get_max_threads(void);

enum {{ LANES = {lanes} }};
typedef float vec __attribute__((vector_size({bits // 8})));
typedef int32_t ivec __attribute__((vector_size({bits // 8})));
typedef vec loose_vec __attribute__((aligned(4), may_alias));

static inline vec load(const float *p) {{ return *(const loose_vec *)p; }}
static inline void store(float *p, vec v) {{ *(loose_vec *)p = v; }}

// The first n lanes from p, the others `fill`.
static inline vec load_some(const float *p, int64_t n, float fill) {{
    vec v = (vec){{0}} + fill;
    for (int64_t k = 0; k < n; k++) v[k] = p[k];
    return v;
}}

static inline void store_some(float *p, vec v, int64_t n) {{
    for (int64_t k = 0; k < n; k++) p[k] = v[k];
}}

// Past the caches: p is aligned to a vector.
static inline void stream(float *p, vec v) {{
#if defined(__clang__)
    __builtin_nontemporal_store(v, (vec *)p);
#elif defined(__x86_64__)
    {_MOVNT[bits]};
#else
    *(vec *)p = v;
#endif
}}

// Streaming stores are ordered before anything after this.
static inline void drain(void) {{
#if defined(__x86_64__)
    __builtin_ia32_sfence();
#endif
}}

// How many floats to do singly before p + that many is aligned to a vector; n when that never happens.
static inline int64_t unaligned(const float *p, int64_t n) {{
    const int64_t past = (int64_t)(((uintptr_t)p / 4) % LANES);
    const int64_t head = past ? LANES - past : 0;
    return head < n ? head : n;
}}

#if defined(__clang__)
#define SHUFFLE(v, ...) __builtin_shufflevector(v, v, __VA_ARGS__)
#else
#define SHUFFLE(v, ...) __builtin_shuffle(v, (ivec){{__VA_ARGS__}})
#endif

static inline float sum_lanes(vec v) {{
{_folded(lanes, "v += {};")}
    return v[0];
}}
"""


def maximum(bits: int) -> str:
    """The larger of two vectors lane by lane, and the largest lane."""
    return f"""
static inline vec larger(vec a, vec b) {{
#if defined(__x86_64__) && !defined(__clang__)
    return {_MAX[bits]};
#else
    const ivec above = a > b;
    return (vec)((above & (ivec)a) | (~above & (ivec)b));
#endif
}}

static inline float largest_lane(vec v) {{
{_folded(bits // 32, "v = larger(v, {});")}
    return v[0];
}}
"""


def turned(bits: int) -> str:
    """`turn(v)`: LANES vectors in registers, transposed in log2(LANES) steps that exchange ever smaller blocks."""
    lanes = bits // 32
    steps = []
    half = lanes // 2
    while half:
        steps += [_exchange(k, half, lanes) for k in range(lanes) if not k & half]
        half //= 2
    body = "\n".join(steps)
    return f"""
#if defined(__clang__)
#define MERGE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MERGE(a, b, ...) __builtin_shuffle(a, b, (ivec){{__VA_ARGS__}})
#endif

static inline __attribute__((always_inline)) void turn(vec *v) {{
    vec a, b;
{body}
}}
"""


def _exchange(row: int, half: int, lanes: int) -> str:
    """The upper right and lower left blocks of two rows change places."""
    upper = ", ".join(str(k if not k & half else lanes + k - half) for k in range(lanes))
    lower = ", ".join(str(k + half if not k & half else lanes + k) for k in range(lanes))
    return (
        f"    a = v[{row}], b = v[{row + half}];\n"
        f"    v[{row}] = MERGE(a, b, {upper});\n"
        f"    v[{row + half}] = MERGE(a, b, {lower});"
    )


def exponential(kind: str, bits: int) -> str:
    """`power(x)` = e^x for x ≤ 0, gradual underflow included: libmvec's, or our own polynomial of degree 5 or 6.

    Needs `maximum` before it.
    """
    polynomial = _polynomial("poly6" if kind == "libmvec" else kind, bits)
    if kind != "libmvec":
        return polynomial
    name = _LIBMVEC[bits]
    return f"""
#if defined(__x86_64__)
extern vec {name}(vec);
static inline vec power(vec x) {{ return {name}(x); }}
#else{polynomial}#endif
"""


def _polynomial(kind: str, bits: int) -> str:
    horner = _COEFFICIENTS[kind][-1]
    for coefficient in reversed(_COEFFICIENTS[kind][:-1]):
        horner = f"({horner} * r + {coefficient})"
    return f"""
// v * 2^n for whole n, rounded once. Without AVX-512 in two factors, because 2^n alone may be subnormal.
static inline vec scaled(vec v, vec shifted, vec n) {{
#if defined({_SCALEF_NEEDS[bits]}) && !defined(__clang__)
    (void)shifted;
    return {_SCALEF[bits]};
#else
    (void)n;
    const ivec whole = (ivec)shifted - 0x4B400000;
    const ivec half = whole >> 1;
    return v * (vec)((half + 127) << 23) * (vec)((whole - half + 127) << 23);
#endif
}}

// e^x = 2^n * e^r, |r| <= ln2 / 2. Adding 1.5 * 2^23 rounds to the nearest whole n and leaves it in the low bits.
// Below -105 float32 has nothing but 0.
static inline vec power(vec x) {{
    x = larger(x, (vec){{0}} - 105.0f);
    const vec shifted = x * 1.44269504f + 12582912.0f;
    const vec n = shifted - 12582912.0f;
    const vec r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    const vec tail = {horner};
    return scaled(r * r * tail + r + 1.0f, shifted, n);
}}
"""


def _folded(lanes: int, step: str) -> str:
    """Halving folds: each line brings the upper half of what is left onto the lower."""
    folds = []
    half = lanes // 2
    while half:
        order = ", ".join(str(k ^ half) for k in range(lanes))
        folds.append("    " + step.format(f"SHUFFLE(v, {order})"))
        half //= 2
    return "\n".join(folds)


_MOVNT = {
    128: "__builtin_ia32_movntps(p, v)",
    256: "__builtin_ia32_movntps256(p, v)",
    512: "__builtin_ia32_movntps512(p, v)",
}
_MAX = {
    128: "__builtin_ia32_maxps(a, b)",
    256: "__builtin_ia32_maxps256(a, b)",
    512: "__builtin_ia32_maxps512_mask(a, b, a, -1, 4)",
}
_SCALEF_NEEDS = {128: "__AVX512VL__", 256: "__AVX512VL__", 512: "__AVX512F__"}
_SCALEF = {
    128: "__builtin_ia32_scalefps128_mask(v, n, v, -1)",
    256: "__builtin_ia32_scalefps256_mask(v, n, v, -1)",
    512: "__builtin_ia32_scalefps512_mask(v, n, v, -1, 4)",
}
_LIBMVEC = {128: "_ZGVbN4v_expf", 256: "_ZGVdN8v_expf", 512: "_ZGVeN16v_expf"}
_COEFFICIENTS = {
    "poly5": ("0.499992303f", "0.166671154f", "0.0418903323f", "0.00831250149f"),
    "poly6": ("0.499999934f", "0.166665204f", "0.0416683908f", "0.00836874521f", "0.00138145401f"),
}
"""Minimax relative error 1.05e-7 (2^-23.2) and 3.1e-9 on |r| ≤ ln2 / 2, by Lawson's iteration on 1 + r + r²·q(r)."""
