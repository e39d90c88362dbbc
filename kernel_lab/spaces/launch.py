"""Launch data: the first line `// assay: {json}` of a C candidate, and the flags that a candidate may ask for."""

import json
import re
from dataclasses import dataclass

from kernel_lab.spaces.fingerprint import fingerprint
from schemas.enums import Language, Reason
from schemas.work import MAX_SOURCE_BYTES, Kernel

PREFIX = "// assay:"
MAX_THREADS = 1024

_ALLOWED = tuple(
    re.compile(pattern)
    for pattern in (
        r"-O([0123s]|fast)",
        r"-f(no-)?(fast-math|associative-math|reciprocal-math|finite-math-only|unsafe-math-optimizations)",
        r"-f(no-)?(signed-zeros|trapping-math|math-errno|rounding-math)",
        r"-ffp-contract=(off|on|fast)",
        r"-f(no-)?(unroll-loops|unroll-all-loops|peel-loops|split-loops|prefetch-loop-arrays|tree-vectorize)",
        r"-f(no-)?(tree-loop-vectorize|tree-slp-vectorize|ipa-cp-clone|inline-functions|schedule-insns2?)",
        r"-f(no-)?(omit-frame-pointer|strict-aliasing|modulo-sched|rename-registers|gcse-las|graphite-identity)",
        r"-fvect-cost-model=(unlimited|dynamic|cheap|very-cheap)",
        r"-mprefer-vector-width=(128|256|512)",
        r"-mtune=(?!native$)[a-z0-9.-]{1,32}",
        r"-mrecip",
    )
)
"""Optimisation, mathematics and loop shape: nothing that touches files, changes the ABI or depends on the host."""


@dataclass(frozen=True)
class Launch:
    """How a candidate asks to be built and run. `threads` is None when it does not say."""

    flags: tuple[str, ...] = ()
    threads: int | None = None


@dataclass(frozen=True)
class LaunchProblem:
    """Why a source has no usable launch data, or is no source."""

    reason: Reason
    message: str


def flag_is_allowed(flag: str) -> bool:
    """`flag` is one that a candidate may ask for."""
    return any(pattern.fullmatch(flag) for pattern in _ALLOWED)


def refused_flags(flags: tuple[str, ...]) -> LaunchProblem | None:
    """The flags that are not on the allowlist, as a problem; None when all are."""
    refused = [flag for flag in flags if not flag_is_allowed(flag)]
    if not refused:
        return None
    message = f"flags not allowed: {', '.join(map(repr, refused))[:300]}; see docs/workloads.md, launch data"
    return LaunchProblem(Reason.FLAG_NOT_ALLOWED, message)


def launch_line(launch: Launch) -> str:
    """The first line of a source with this launch data."""
    return f"{PREFIX} {json.dumps({'flags': list(launch.flags), 'threads': launch.threads})}"


def parse_launch(source: str) -> Launch | LaunchProblem:
    """The launch data of `source`; empty when its first line carries none."""
    first = source.split("\n", 1)[0].strip()
    if not first.startswith(PREFIX):
        return Launch()
    try:
        stated = json.loads(first[len(PREFIX) :])
    except (ValueError, RecursionError) as error:
        return _bad(f"not JSON: {error}")
    return _checked(stated)


def read_source(body: bytes) -> str | LaunchProblem:
    """`body` as source text: UTF-8, not empty, no NUL, at most 256 KiB."""
    if len(body) > MAX_SOURCE_BYTES:
        return LaunchProblem(Reason.TOO_LARGE, f"more than {MAX_SOURCE_BYTES} bytes of source, the most there may be")
    try:
        source = body.decode("utf-8")
    except UnicodeDecodeError as error:
        return LaunchProblem(Reason.NOT_TEXT, f"not UTF-8: {error.reason} at byte {error.start}")
    if "\0" in source:
        return LaunchProblem(Reason.NOT_TEXT, f"a NUL byte at character {source.index(chr(0))}: not source text")
    if not source.strip():
        return LaunchProblem(Reason.NOT_TEXT, "the file is empty")
    return source


def kernel_from_source(body: bytes, language: Language, target: str) -> Kernel | LaunchProblem:
    """A file as a kernel, with the launch data of its first line."""
    source = read_source(body)
    if isinstance(source, LaunchProblem):
        return source
    launch = parse_launch(source)
    if isinstance(launch, LaunchProblem):
        return launch
    return Kernel(
        language=language,
        source=source,
        flags=launch.flags,
        threads=launch.threads,
        fingerprint=fingerprint(source, launch.flags, launch.threads, target),
    )


def _checked(stated: object) -> Launch | LaunchProblem:
    if not isinstance(stated, dict):
        return _bad("not a JSON object")
    unknown = sorted(set(stated) - {"flags", "threads"})
    if unknown:
        return _bad(f"unknown keys {unknown}; a C candidate may state flags and threads")
    flags, threads = stated.get("flags", []), stated.get("threads")
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        return _bad("flags must be a list of strings")
    if threads is not None and (type(threads) is not int or not 1 <= threads <= MAX_THREADS):
        return _bad(f"threads must be a whole number from 1 to {MAX_THREADS}")
    return refused_flags(tuple(flags)) or Launch(tuple(flags), threads)


def _bad(what: str) -> LaunchProblem:
    return LaunchProblem(Reason.BAD_LAUNCH_DATA, f"launch data in line 1: {what}"[:500])
