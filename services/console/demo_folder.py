"""Where a demo keeps its data: a fresh `.assay/demo-<n>`, and the last two are kept."""

import re
import shutil
from pathlib import Path

from schemas.faults import Misconfigured

KEPT = 2


def fresh_demo_folder(root: Path) -> Path:
    """A new empty folder under `root`; of the demos before it only the latest is kept. Raises Misconfigured."""
    earlier = sorted((n, path) for path in root.glob("demo-*") if (n := _number(path)) is not None)
    for _, path in earlier[: max(0, len(earlier) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)
    folder = root / f"demo-{earlier[-1][0] + 1 if earlier else 1}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise Misconfigured(f"cannot make {folder} ({error.strerror}); run the demo in a folder of yours") from error
    return folder


def _number(path: Path) -> int | None:
    found = re.fullmatch(r"demo-(\d+)", path.name)
    return int(found[1]) if found else None
