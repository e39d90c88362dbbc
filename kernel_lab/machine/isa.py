"""From what the processor can do to what the compiler is told: a level plus explicit features, never `native`."""

from collections.abc import Callable

X86_LEVELS = (
    ("x86-64-v4", {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
    ("x86-64-v3", {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"}),
    ("x86-64-v2", {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}),
)
"""Highest first; each level needs its own flags and those of the levels below (x86-64 psABI, table 3.1)."""

X86_FEATURES = {
    "avx_vnni": "-mavxvnni",
    "avx512_bf16": "-mavx512bf16",
    "avx512_bitalg": "-mavx512bitalg",
    "avx512_fp16": "-mavx512fp16",
    "avx512_vbmi2": "-mavx512vbmi2",
    "avx512_vnni": "-mavx512vnni",
    "avx512_vpopcntdq": "-mavx512vpopcntdq",
    "avx512ifma": "-mavx512ifma",
    "avx512vbmi": "-mavx512vbmi",
    "gfni": "-mgfni",
    "vaes": "-mvaes",
    "vpclmulqdq": "-mvpclmulqdq",
}
"""Kernel's name to gcc's, for what a numeric kernel may use beyond a level."""

Accepts = Callable[[tuple[str, ...]], bool]
"""Whether the compiler takes these flags together."""


def x86_level(flags: set[str]) -> str:
    """The highest level whose flags, and those of every level below, are all there."""
    for at, (level, _) in enumerate(X86_LEVELS):
        if all(needed <= flags for _, needed in X86_LEVELS[at:]):
            return level
    return "x86-64"


def x86_features(flags: set[str], march: str, accepts: Accepts) -> tuple[str, ...]:
    """`-m…` flags that the processor has and the compiler takes; an older compiler refuses newer ones."""
    wanted = tuple(sorted(option for name, option in X86_FEATURES.items() if name in flags))
    target = f"-march={march}"
    if not wanted or accepts((target, *wanted)):
        return wanted
    return tuple(option for option in wanted if accepts((target, option)))


def vector_bits(march: str) -> int:
    """Widest vectors of a level."""
    return {"x86-64-v4": 512, "x86-64-v3": 256}.get(march, 128)
