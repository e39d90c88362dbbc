"""NVRTC: CUDA C++ to PTX, with no GPU and no driver. Needs the packages cuda-python and nvidia-cuda-nvrtc."""

import re
from collections.abc import Callable

from schemas.faults import Misconfigured

_FILE_DIRECTIVE = re.compile(r'^(\s*\.file\s+\d+\s+)"(?:[^"]*/)?([^"/]+)"', re.MULTILINE)
_RELEASE = re.compile(r"^// Cuda compilation tools, release (\S+),", re.MULTILINE)
_PRELUDE = ("--define-macro=int64_t=long long",)
"""What the candidate contract promises: `int64_t`, which NVRTC lacks. A macro keeps the source's line numbers."""


class NoCudaCompiler(Misconfigured):
    """NVRTC is not installed; the message says how to get it."""


class NotCompiled(Misconfigured):
    """The source is no CUDA C++ for this architecture; the message is the compiler's log."""


def release() -> str | None:
    """The release of NVRTC on this machine (`13.5`); None where it or its Python bindings are missing."""
    try:
        from cuda.bindings import nvrtc

        _status, major, minor = nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError):  # RuntimeError: the bindings are there, the library is not
        return None
    return f"{major}.{minor}"


def release_of(ptx: str) -> str:
    """The compiler release that made `ptx` (`13.5`), as its header says; empty where it has none."""
    found = _RELEASE.search(ptx)
    return found.group(1) if found else ""


def compiled(source: str, name: str, architecture: str, *, line_info: bool = True) -> str:
    """PTX of `source` for `architecture` (`sm_80`), without machine paths: `.file` names `name`.cu alone.

    Raises NoCudaCompiler where NVRTC is missing and NotCompiled with the compiler's log.
    """
    if release() is None:
        raise NoCudaCompiler("no CUDA compiler: pip install cuda-python nvidia-cuda-nvrtc")
    options = [f"--gpu-architecture={architecture.replace('sm_', 'compute_')}", *_PRELUDE, "--diag-suppress=550"]
    return _without_paths(_ptx(source, f"{name}.cu", options + ["-lineinfo"] * line_info))


def _ptx(source: str, file_name: str, options: list[str]) -> str:
    from cuda.bindings import nvrtc

    status, program = nvrtc.nvrtcCreateProgram(source.encode(), file_name.encode(), 0, [], [])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise NotCompiled(f"{file_name}: {status}")
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _text(nvrtc.nvrtcGetProgramLogSize(program)[1], lambda into: nvrtc.nvrtcGetProgramLog(program, into))
            raise NotCompiled(f"{file_name}: {status}\n{log}")
        return _text(nvrtc.nvrtcGetPTXSize(program)[1], lambda into: nvrtc.nvrtcGetPTX(program, into))
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _text(size: int, fill: Callable[[bytes], object]) -> str:
    buffer = b" " * size  # the binding writes into it
    fill(buffer)
    return buffer.rstrip(b"\0 ").decode()


def _without_paths(ptx: str) -> str:
    return _FILE_DIRECTIVE.sub(r'\1"\2"', ptx).rstrip() + "\n"
