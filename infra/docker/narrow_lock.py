"""`python3 infra/docker/narrow_lock.py`: what of requirements.lock the images need, into the lock beside this file.

Needs nothing but Python. The lock's own `# via` lines say who wants what, so the pins are the very same.
"""

import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILDS = ("setuptools",)
"""nkeys comes as source only."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
VIA = re.compile(r"^    #(?: via)?\s+(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


def narrowed(lock: str, wanted: Iterable[str]) -> str:
    """The pins of `lock` that `wanted` needs, directly or not."""
    pins = re.split(r"\n(?=\w)", lock.strip())
    needed: set[str] = set()
    found = {_normal(name) for name in wanted}
    while found - needed:
        needed |= found
        found = {_name_of(pin) for pin in pins if needed & {_normal(name) for name in VIA.findall(pin)}}
    return "\n".join(pin for pin in pins if _name_of(pin) in needed) + "\n"


def main() -> int:
    """0; the narrow lock is written."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [_name_of(requirement) for requirement in project["dependencies"]]
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    (ROOT / "infra/docker/requirements.lock").write_text(narrowed(lock, (*wanted, *BUILDS)), encoding="utf-8")
    return 0


def _name_of(line: str) -> str:
    matched = NAME.match(line)
    assert matched, line
    return _normal(matched[0])


def _normal(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    sys.exit(main())
