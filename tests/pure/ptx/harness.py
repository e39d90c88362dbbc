"""One-instruction kernels: every lane loads its operands, does the instruction, and stores the result."""

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from kernel_lab.ptx.api import Buffer, Launch, Report, Verdict, run

Array = np.ndarray
REGISTERS = {"b8": "b16", "u8": "u16", "s8": "s16", "pred": "u32"}
BITS = {
    "u16x2": 32,
    "s16x2": 32,
    "b8": 8,
    "u8": 8,
    "s8": 8,
    "pred": 32,
    "f16x2": 32,
    "bf16x2": 32,
    "f32x2": 64,
    "e4m3x2": 16,
    "e5m2x2": 16,
}


def bits_of(type_: str) -> int:
    """The bits of a type in memory."""
    return BITS.get(type_) or int("".join(c for c in type_[-2:] if c.isdigit()))


def raw(type_: str) -> str:
    """The memory type of the same width."""
    return f"b{bits_of(type_)}"


def kernel(instruction: str, result: str, operands: Sequence[str], declarations: str = "", before: str = "") -> str:
    """PTX that does `instruction` on %a0, %a1 … and stores %d; predicates are loaded and stored as 0 and 1."""
    names = [f"p{index}" for index in range(len(operands))]
    registers = [_register(f"%a{index}", type_) for index, type_ in enumerate(operands)]
    loads = [_load(index, type_) for index, type_ in enumerate(operands)]
    return f"""
.version 8.7
.target sm_100
.address_size 64
.visible .entry k({", ".join(f".param .u64 {name}" for name in [*names, "out"])})
{{
    .reg .b32 %i, %flag, %other;
    .reg .b64 %at, %base, %off;
    .reg .pred %q;
    {" ".join(registers)}
    {_register("%d", result)}
    {declarations}
    mov.u32 %i, %tid.x;
    {" ".join(loads)}
    {before}
    {instruction}
    {_store(result)}
    ret;
}}
"""


def _register(name: str, type_: str) -> str:
    kind = "pred" if type_ == "pred" else f"b{max(bits_of(type_), 16)}"
    return f".reg .{kind} {name};"


def _address(parameter: str, size: int) -> str:
    return f"ld.param.u64 %base, [{parameter}]; mul.wide.u32 %off, %i, {size}; add.s64 %at, %base, %off;"


def _load(index: int, type_: str) -> str:
    address = _address(f"p{index}", bits_of(type_) // 8)
    if type_ == "pred":
        return f"{address} ld.global.u32 %flag, [%at]; setp.ne.u32 %a{index}, %flag, 0;"
    return f"{address} ld.global.{raw(type_)} %a{index}, [%at];"


def _store(type_: str) -> str:
    address = _address("out", bits_of(type_) // 8)
    if type_ == "pred":
        return f"{address} selp.u32 %flag, 1, 0, %d; st.global.u32 [%at], %flag;"
    return f"{address} st.global.{raw(type_)} [%at], %d;"


def outcome(text: str, result: str, operands: Sequence[Array]) -> Report:
    """The report on the kernel for one block of lanes."""
    lanes = operands[0].size
    arguments = [Buffer(operand, "in", f"p{index}") for index, operand in enumerate(operands)]
    output = Buffer(np.zeros(lanes, f"u{bits_of(result) // 8}"), "out", "out")
    return run(text, Launch("k", (1, 1, 1), (lanes, 1, 1), (*arguments, output)))


def lanes_of(
    instruction: str,
    result: str,
    types: Sequence[str],
    operands: Sequence[Array],
    declarations: str = "",
    before: str = "",
) -> Array:
    """The raw bits that the instruction gives in every lane."""
    report = outcome(kernel(instruction, result, types, declarations, before), result, operands)
    assert report.verdict is Verdict.PASS, report.diagnostics
    return report.outputs["out"]


ORACLE = r"""
#include <fenv.h>
#include <math.h>
#include <stdint.h>
static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define BEGIN volatile int n = count; fesetround(modes[mode]); for (int i = 0; i < n; ++i) {
#define END } fesetround(FE_TONEAREST);
#define THREE(T) int mode, int count, volatile T *a, volatile T *b, volatile T *c, volatile T *d
#define OPERATION(NAME, T, S, EXPRESSION) void NAME##_##S(THREE(T)) { BEGIN d[i] = EXPRESSION; END }
#define FAMILY(T, S, F) \
  OPERATION(add, T, S, a[i] + b[i]) OPERATION(sub, T, S, a[i] - b[i]) OPERATION(mul, T, S, a[i] * b[i]) \
  OPERATION(div, T, S, a[i] / b[i]) OPERATION(fma, T, S, fma##F(a[i], b[i], c[i])) OPERATION(sqrt, T, S, sqrt##F(a[i]))
FAMILY(float, f32, f)
FAMILY(double, f64, )
void cvt_f64_f32(int mode, int count, volatile double *a, volatile float *d) { BEGIN d[i] = (float)a[i]; END }
#define FROM(I, N) \
  void cvt_##N##_f32(int mode, int count, volatile I *a, volatile float *d) { BEGIN d[i] = (float)a[i]; END } \
  void cvt_##N##_f64(int mode, int count, volatile I *a, volatile double *d) { BEGIN d[i] = (double)a[i]; END }
FROM(uint32_t, u32) FROM(int32_t, s32) FROM(uint64_t, u64) FROM(int64_t, s64)
"""
MODES = ("rn", "rz", "rm", "rp")


@cache
def oracle() -> ctypes.CDLL:
    """The C library's arithmetic in every rounding mode: what IEEE 754 hardware does."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "these tests compile a few lines of C; install gcc"
    folder = Path(mkdtemp(prefix="assay-ptx-oracle-"))
    source, library = folder / "oracle.c", folder / "oracle.so"
    source.write_text(ORACLE)
    flags = ["-O1", "-frounding-math", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(str(library))
    shutil.rmtree(folder)
    return loaded


def exact(name: str, type_: str, mode: str, *operands: Array) -> Array:
    """What C gives for an operation on raw bits."""
    padded = [np.ascontiguousarray(operand) for operand in (*operands, operands[0], operands[0])[:3]]
    result = np.zeros_like(padded[0])
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*padded, result)]
    getattr(oracle(), f"{name}_{type_}")(MODES.index(mode), result.size, *pointers)
    return result


def converted(of: str, to: str, mode: str, values: Array) -> Array:
    """What C gives for a conversion."""
    result = np.zeros(values.size, f"f{bits_of(to) // 8}")
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (values, result)]
    getattr(oracle(), f"cvt_{of}_{to}")(MODES.index(mode), values.size, *pointers)
    return result


SPECIALS32 = (
    0x00000000, 0x80000000, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00000001, 0x80000001,
    0x007FFFFF, 0x00800000, 0x80800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800001, 0x34000000, 0x33800000, 0x4B800000,
    0x4B7FFFFF, 0x0C000000, 0x7E800000,
)  # fmt: skip
SPECIALS64 = (
    0, 1 << 63, 0x3FF0000000000000, 0xBFF0000000000000, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 1,
    (1 << 63) | 1, 0x000FFFFFFFFFFFFF, 0x0010000000000000, 0x7FEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFF, 0x3FF0000000000001,
    0x3CA0000000000000, 0x3CB0000000000000, 0x4340000000000000, 0x0030000000000000, 0x7FD0000000000000,
)  # fmt: skip


def floats(bits: int, lanes: int, seed: int, position: int) -> Array:
    """Raw floats: specials against specials first, then close exponents, then any bits at all."""
    rng = np.random.default_rng([seed, position])
    specials = np.array(SPECIALS32 if bits == 32 else SPECIALS64, f"u{bits // 8}")
    order = rng.permutation(np.resize(specials, lanes // 4))
    wild = rng.integers(0, 1 << (bits - 1), lanes // 4, np.uint64) * np.uint64(2) + rng.integers(
        0, 2, lanes // 4, np.uint64
    )
    near = rng.normal(size=lanes - 2 * (lanes // 4)).astype(f"f{bits // 8}")
    near *= np.exp2(rng.integers(-12, 12, near.size)).astype(near.dtype)
    return np.concatenate([order, wild.astype(specials.dtype), near.view(specials.dtype)])


def same_floats(got: Array, wanted: Array) -> Array:
    """Lanes whose bits agree, any NaN being as good as another."""
    kind = f"f{got.dtype.itemsize}"
    both_nan = np.isnan(got.view(kind)) & np.isnan(wanted.view(kind))
    return both_nan | (got == wanted)
