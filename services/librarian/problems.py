"""Validation errors as a person wants to read them: a JSON path into what was sent, plain words, and a way out."""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError

from schemas.model import Model
from schemas.requests import Problem
from services.librarian.request_text import json_path, printable

_WORDS: Mapping[str, str] = {
    "missing": "is required",
    "extra_forbidden": "is not a field here",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "tuple_type": "must be a list",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "string_type": "must be text",
    "bool_type": "must be true or false",
}
"""By pydantic's error type; other errors keep pydantic's words, which are plain."""

_UNION_BRANCHES = ("literal[", "tuple[")
_SCALARS = ("int", "str", "bool", "float")


def problems_of(error: ValidationError, model: type[Model], value: Mapping[str, Any]) -> list[Problem]:
    """One problem per thing wrong, each once, in pydantic's order."""
    found: dict[str, Problem] = {}
    for detail in error.errors(include_url=False, include_context=False):
        if detail["type"] == "json_invalid" or not _on_the_branch_taken(detail["loc"], value):
            continue
        path = _path(detail["loc"], value)
        message = _WORDS.get(detail["type"], detail["msg"].removeprefix("Value error, "))
        if detail["loc"][-1:] in (("int",), ("str",), ("bool",)):
            message = "must be an integer, text, true or false"
        problem = Problem(path=json_path(*path), message=message, hint=_hint(detail["type"], path, model))
        found.setdefault(f"{problem.path} {problem.message}", problem)
    return list(found.values())


def problems_in(model: type[Model], value: Mapping[str, Any]) -> list[Problem]:
    """What is wrong with `value` as a `model`; nothing when it is one."""
    try:
        model.model_validate(value)
    except ValidationError as error:
        return problems_of(error, model, value)
    return []


def _on_the_branch_taken(loc: tuple[int | str, ...], value: Mapping[str, Any]) -> bool:
    """A union reports every branch: keep the one that fits what was sent (text or a list)."""
    for index, part in enumerate(loc):
        if isinstance(part, str) and part.startswith(_UNION_BRANCHES):
            sent = _at(value, loc[:index])
            return part.startswith("tuple[") == isinstance(sent, list)
    return True


def _path(loc: tuple[int | str, ...], value: Mapping[str, Any]) -> tuple[int | str, ...]:
    """`loc` without what pydantic and the flat writing of shapes add."""
    path: list[int | str] = []
    for index, part in enumerate(loc):
        tag = isinstance(part, str) and (part.startswith(_UNION_BRANCHES) or part == "[key]")
        scalar = part in _SCALARS and index == len(loc) - 1 and index > 0 and isinstance(loc[index - 1], int)
        sent = _at(value, tuple(path)) if part == "axes" else None
        flat = isinstance(sent, Mapping) and "axes" not in sent and path[:1] == ["shapes"]
        if not (tag or scalar or flat):
            path.append(part)
    return tuple(path)


def _at(value: Any, path: tuple[int | str, ...]) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _hint(type_: str, path: tuple[int | str, ...], model: type[Model]) -> str:
    if type_ == "enum" and path == ("target",):
        return "GPU targets are not part of this version"
    if type_ != "extra_forbidden":
        return ""
    name = str(path[-1])
    here = _model_at(model, path[:-1])
    names = sorted(here.model_fields) if here else []
    near = get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    elsewhere = _sections_with(name, model)
    if elsewhere:
        return f"it belongs in {elsewhere[0]}"
    return f"known: {', '.join(names)}" if names else printable(name)


def _model_at(model: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    here: type[BaseModel] | None = model
    for part in path:
        here = _sections(here).get(str(part)) if here else None
    return here


def _sections_with(name: str, model: type[BaseModel]) -> list[str]:
    return [section for section, inner in _sections(model).items() if name in inner.model_fields]


def _sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """Fields of `model` that are models themselves."""
    return {
        name: field.annotation
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }
