"""A goal file on disk becomes the JSON body of a request. What is in it is judged by the desk, not here."""

import json
import re
import secrets
from pathlib import Path
from typing import Any

import yaml

from schemas.faults import Misconfigured

TEMPLATES = Path(__file__).resolve().parents[2] / "examples" / "goals"


def template_names() -> tuple[str, ...]:
    """Goals that come with Assay."""
    return tuple(sorted(path.stem for path in TEMPLATES.glob("*.yaml")))


def template(name: str) -> Path:
    """The file of a goal that comes with Assay. Raises Misconfigured, listing the names there are."""
    path = TEMPLATES / f"{name}.yaml"
    if name not in template_names():
        raise Misconfigured(f"no template {name!r}; there are: {', '.join(template_names())}")
    return path


def load(path: Path) -> dict[str, Any]:
    """The mapping in a YAML or JSON goal file. Raises Misconfigured with file, line and what to do."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Misconfigured(f"{path}: no such file; `assay goal submit` alone lists templates to start from") from None
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{path}: not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise Misconfigured(f"{path}: {error.strerror}") from error
    try:
        goal = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        raise Misconfigured(f"{where}: neither YAML nor JSON: {getattr(error, 'problem', error)}") from error
    except RecursionError:
        raise Misconfigured(f"{path}: nested too deeply for a goal file") from None
    if not isinstance(goal, dict):
        raise Misconfigured(f"{path}: a goal file is a mapping with at least `workload` and `target`")
    return goal


def request_body(goal: dict[str, Any]) -> bytes:
    """The body of `assay.intake.goal.submitted.<id>`."""
    return json.dumps(goal, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass")


def new_goal_id(goal: dict[str, Any]) -> str:
    """A readable id that no earlier goal has: the goal's name and four random bytes."""
    words = re.sub(r"[^A-Za-z0-9_-]+", "-", str(goal.get("name") or goal.get("workload") or "goal"))
    return f"{words[:48].strip('-') or 'goal'}-{secrets.token_hex(4)}"
