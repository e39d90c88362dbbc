"""The two small C programs of the lab (`launch`, `runner`) are compiled once per machine and kept by digest."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from schemas.faults import Misconfigured

INCLUDED = re.compile(r'^#include "(.+)"$', re.MULTILINE)
FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")
LIBRARIES = ("-ldl",)


def default_cache_dir() -> Path:
    """`$XDG_CACHE_HOME/assay/native`, else `~/.cache/assay/native`; without a writable home, one among temporary files.

    The XDG specification ignores a path that is not absolute.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    root = named if named.is_absolute() else Path.home() / ".cache"
    if named.is_absolute() or (root.is_absolute() and _may_be_made(root)):
        return root / "assay" / "native"
    return Path(tempfile.gettempdir()) / f"assay-native-{os.getuid()}"


def _may_be_made(folder: Path) -> bool:
    return os.access(next(path for path in (folder, *folder.parents) if path.exists()), os.W_OK)


def build_once(source: Path, cache_dir: Path | None = None, extra: tuple[str, ...] = ()) -> Path:
    """`source` is compiled, with `extra` flags; the same source, flags and compiler give the same path at once. Raises
    Misconfigured."""
    compiler = find_compiler()
    folder = cache_dir or default_cache_dir()
    target = folder / f"{source.stem}-{_digest(source, compiler, extra)}"
    _make_folder(folder)
    if not target.exists():
        _compile(compiler, source, target, extra)
    return target


def find_compiler() -> Path:
    """The host's gcc, else clang."""
    for name in ("gcc", "clang", "cc"):
        found = shutil.which(name)
        if found:
            return Path(found)
    raise Misconfigured("no C compiler found: apt-get install gcc libc6-dev")


def _digest(source: Path, compiler: Path, extra: tuple[str, ...]) -> str:
    """Source, what it includes from beside it, flags and the compiler's identity (path, size and time of its file stand
    for its version)."""
    state = compiler.resolve().stat()
    identity = f"{compiler.resolve()} {state.st_size} {state.st_mtime_ns} {FLAGS} {LIBRARIES}{''.join(extra)}"
    text = source.read_text(encoding="utf-8")
    texts = (text, *(source.with_name(name).read_text(encoding="utf-8") for name in INCLUDED.findall(text)))
    return hashlib.sha256("\0".join((identity, *texts)).encode()).hexdigest()[:16]


def _make_folder(folder: Path) -> None:
    """`folder` is there, and ours alone to change."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise Misconfigured(f"{folder} cannot be made ({error.strerror}): set XDG_CACHE_HOME") from error
    found = folder.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise Misconfigured(f"{folder} can be written by others, and programs are run from it: set XDG_CACHE_HOME")


def _compile(compiler: Path, source: Path, target: Path, extra: tuple[str, ...]) -> None:
    """`target` appears whole or not at all; two processes may race and either result serves."""
    partial = target.with_name(f"{target.name}.{os.getpid()}")
    command = [str(compiler), *FLAGS, *extra, "-o", str(partial), str(source), *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        with_flags = f" with {' '.join(extra)}" if extra else ""
        packages = "libc6-dev, and the compiler's libasan and libubsan" if extra else "libc6-dev"
        raise Misconfigured(
            f"{compiler} cannot build {source.name}{with_flags}: apt-get install {packages}\n{done.stderr[:2000]}"
        )
    partial.rename(target)
