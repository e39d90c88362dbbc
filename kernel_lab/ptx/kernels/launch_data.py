"""Launch data of CUDA and PTX candidates: `// assay: {"grid": [...], "block": [...], "shared_bytes": …}` in line 1."""

import ast
import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from schemas.faults import Misconfigured

PREFIX = "// assay:"

Expression = int | str

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def ceildiv(value: int, divisor: int) -> int:
    """⌈value / divisor⌉."""
    return -(-value // divisor)


_FUNCTIONS: dict[str, Callable[..., int]] = {"min": min, "max": max, "ceildiv": ceildiv}


class BadLaunchData(Misconfigured):
    """Line 1 carries no usable launch data; the message says why."""


@dataclass(frozen=True)
class LaunchData:
    """Grid, block and dynamic shared memory, as expressions over a workload's axes."""

    grid: tuple[Expression, Expression, Expression]
    block: tuple[Expression, Expression, Expression]
    shared_bytes: Expression = 0

    def at(self, axes: Mapping[str, int]) -> tuple[tuple[int, int, int], tuple[int, int, int], int]:
        """(grid, block, shared bytes) where the axes have these sizes."""
        return _triple(self.grid, axes), _triple(self.block, axes), evaluated(self.shared_bytes, axes)


def read_launch_data(source: str) -> LaunchData:
    """The launch data in the first line of `source`. Raises BadLaunchData."""
    first = source.split("\n", 1)[0]
    if not first.startswith(PREFIX):
        raise BadLaunchData(f"line 1: expected {PREFIX!r} and JSON, found {first[:40]!r}")
    try:
        stated = json.loads(first[len(PREFIX) :])
        return LaunchData(_expressions(stated["grid"]), _expressions(stated["block"]), stated.get("shared_bytes", 0))
    except (ValueError, KeyError, TypeError) as error:
        raise BadLaunchData(f"line 1: {error}") from error


def evaluated(expression: Expression, axes: Mapping[str, int]) -> int:
    """The value of `+ - * // % min max ceildiv` over `axes`. Raises BadLaunchData for anything else."""
    if isinstance(expression, int):
        return expression
    try:
        return _value(ast.parse(expression, mode="eval").body, axes)
    except (SyntaxError, ZeroDivisionError) as error:
        raise BadLaunchData(f"{expression!r}: {error}") from error


def _value(node: ast.expr, axes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, axes), _value(right, axes))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_value(argument, axes) for argument in arguments))
    raise BadLaunchData(f"{ast.unparse(node)!r} is neither an axis ({', '.join(axes)}) nor + - * // % min max ceildiv")


def _expressions(stated: object) -> tuple[Expression, Expression, Expression]:
    if not isinstance(stated, list) or len(stated) != 3 or not all(isinstance(each, int | str) for each in stated):
        raise TypeError(f"grid and block are lists of three integers or expressions, not {stated!r}")
    x, y, z = stated
    return x, y, z


def _triple(parts: tuple[Expression, Expression, Expression], axes: Mapping[str, int]) -> tuple[int, int, int]:
    x, y, z = (evaluated(part, axes) for part in parts)
    return x, y, z
