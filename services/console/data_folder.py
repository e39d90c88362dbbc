"""One data folder belongs to one factory at a time, and says which Assay wrote it."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schemas.faults import Misconfigured
from services.runtime.settings import Settings

FORMAT = 1
"""Of the data folder. A greater one was written by a newer Assay."""
LEAST_FREE_BYTES = 512 * 1024 * 1024
"""Chosen: room for both servers' files and half a million facts."""


@contextmanager
def claim(settings: Settings) -> Iterator[None]:
    """This process owns the data folder. Raises Misconfigured: not writable, of another version, full, or in use."""
    folder = settings.data_dir
    _require_writable(folder)
    _require_version(folder / "format.json")
    _require_space(folder)
    settings.run_dir.mkdir(exist_ok=True)
    (folder / "logs").mkdir(exist_ok=True)
    with (settings.run_dir / "factory.lock").open("a+") as lock:
        _lock(lock.fileno(), folder)
        _forget_killed_run(settings.run_dir)
        shutil.rmtree(settings.temporary, ignore_errors=True)
        yield


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Misconfigured(f"a factory is running in {folder} already; `assay status` shows it") from None


def _forget_killed_run(run_dir: Path) -> None:
    """What a killed factory said of itself no longer misleads anyone."""
    for stale in run_dir.glob("*.json"):
        stale.unlink()


def _require_writable(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise Misconfigured(
            f"cannot write to the data folder {folder} ({error.strerror}); set ASSAY_DATA to a folder of yours"
        ) from error
    folder.chmod(folder.stat().st_mode & ~0o077 | 0o700)


def _require_version(stamp: Path) -> None:
    try:
        found = json.loads(stamp.read_text(encoding="utf-8"))["format"]
    except FileNotFoundError:
        if (stamp.parent / "postgres").exists():
            raise Misconfigured(f"{stamp.parent} holds data but no {stamp.name}: not a data folder of Assay") from None
        stamp.write_text(json.dumps({"format": FORMAT}) + os.linesep, encoding="utf-8")
        return
    except (ValueError, KeyError, TypeError):
        raise Misconfigured(f'{stamp} is damaged; it should say {{"format": {FORMAT}}}') from None
    if found != FORMAT:
        raise Misconfigured(
            f"{stamp.parent} is in format {found} and this Assay reads format {FORMAT}; "
            "use the Assay that wrote it, or set ASSAY_DATA to another folder"
        )


def _require_space(folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE_BYTES:
        raise Misconfigured(
            f"the disk of {folder} is full: {free >> 20} MiB free, a factory needs {LEAST_FREE_BYTES >> 20}; "
            "free some, or set ASSAY_DATA to a folder on another disk"
        )
