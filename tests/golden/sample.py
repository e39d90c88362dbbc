"""One plausible body per fact type, built from its annotations. `python -m tests.golden.sample` adds what is missing.

A golden file is written once and never changed: it is what an older Assay left in somebody's log.
"""

import types
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel

from schemas.events import FACTS
from schemas.goal import Shape
from schemas.steering import Ban

FOLDER = Path(__file__).parent / "facts"
PLAIN: dict[Any, Any] = {
    str: "sample-text",
    int: 3,
    float: 1.5,
    bool: True,
    UUID: UUID("00000000-0000-4000-8000-000000000001"),
    datetime: datetime(2026, 11, 30, 12, 0, tzinfo=UTC),
}
SPECIAL: dict[str, Any] = {
    "goal_id": "sample-goal",
    "route": "cpu_0a1b2c3d",
    "Interval.level": 0.99,
    "Tolerance.scale": 0.5,
    "Finals.wall": 60.0,
    "Goal.shapes": "serving",
    "Goal.workload": "rms_norm",
    "Search.strategies": ("enumerate",),
    "Certificate.public_key": "01" * 32,
    "Certificate.issuer": "02" * 32,
    "Certificate.signature": "03" * 64,
}
"""Where the plain sample would be refused, by field or by model and field."""


def sample(annotation: Any, name: str) -> Any:
    """A fixed value of `annotation`."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return sample(next(a for a in arguments if a is not type(None)), name)
    if origin is tuple:
        items = [a for a in arguments if a is not Ellipsis]
        return tuple(sample(item, name) for item in items)
    if origin is dict:
        return {"T" if name == "axes" else "key": sample(arguments[1], name)}
    if hasattr(annotation, "__metadata__"):
        return sample(arguments[0], name)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return next(iter(annotation))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return sample_model(annotation)
    raise TypeError(f"no sample for {name}: {annotation!r}")


def sample_model(model: type[BaseModel]) -> BaseModel:
    """A fixed instance of `model`, validated."""
    if model is Shape:
        return Shape(axes={"T": 3}, weight=1.5)
    if model is Ban:
        return Ban(tunable="unroll", value=3)
    fields = {
        name: SPECIAL.get(f"{model.__name__}.{name}", SPECIAL.get(name)) or sample(field.annotation, name)
        for name, field in model.model_fields.items()
    }
    return model.model_validate(fields)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for type_, fact in FACTS.items():
        path = FOLDER / f"{type_}.json"
        if not path.exists():
            path.write_text(sample_model(fact).model_dump_json(indent=2) + "\n", encoding="utf-8")
            print(f"wrote {path.name}")
