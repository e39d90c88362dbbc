"""A workload module on disk, as an object. It is Python and is run: the person who names it vouches for it."""

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from kernel_lab.workloads.workload import Workload
from schemas.faults import Misconfigured

MODULE = "assay_checked_workload"


def load_workloads(file: Path) -> tuple[Workload, ...]:
    """Every workload that the module in `file` holds. Raises Misconfigured: unreadable, not Python, or without one."""
    module = _run(file)
    found = {id(value): value for value in vars(module).values() if isinstance(value, Workload)}
    if not found:
        raise Misconfigured(f"{file} defines no Workload; kernel_lab/workloads/rms_norm.py is one to start from")
    return tuple(found.values())


def _run(file: Path) -> ModuleType:
    try:
        source = file.read_text(encoding="utf-8")
    except OSError as error:
        raise Misconfigured(f"{file}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{file}: not UTF-8 text (byte {error.start})") from error
    spec = importlib.util.spec_from_loader(MODULE, loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(file)
    sys.modules[MODULE] = module  # dataclasses look their module up
    try:
        exec(compile(source, str(file), "exec"), vars(module))  # noqa: S102  running it is what was asked for
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise Misconfigured(f"{file}{f':{line}' if line else ''}: not Python: {error}") from error
    except Exception as error:  # a stranger's module may raise anything
        raise Misconfigured(f"{file}:{_line(error, file)}: {type(error).__name__}: {error}") from error
    finally:
        del sys.modules[MODULE]
    return module


def _line(error: Exception, file: Path) -> int:
    """The last line of `file` that was running."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return (frames[-1].lineno if frames else None) or 0
