"""Kernel arguments as people write them: `in:f32[64,1024]=normal`, `out:f32[1024]`, `i64=1024`, `f32=1e-6`.

    [NAME:]in|out|inout:TYPE[SHAPE][=FILL]     a buffer; FILL is normal, zeros, ones, arange, a number, or FILE.npy
    TYPE=NUMBER                                a scalar

Without a name, buffers are arg0, arg1 … by position. An `out` buffer takes no fill: it starts uninitialised.
"""

import re
from pathlib import Path

import numpy as np

from kernel_lab.ptx.launch import Arg, Buffer, LaunchRefused, Role
from kernel_lab.ptx.numbers.formats import to_bf16

TYPES = {
    "f16": "f2", "bf16": "u2", "f32": "f4", "f64": "f8", "i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8",
    "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8",
}  # fmt: skip
BUFFER = re.compile(r"(?:(?P<name>\w+):)?(?P<role>in|out|inout):(?P<type>\w+)\[(?P<shape>[\d,x ]+)\](?:=(?P<fill>.+))?")
SCALAR = re.compile(r"(?P<type>\w+)=(?P<value>.+)")


def read_arguments(texts: list[str], seed: int) -> tuple[Arg, ...]:
    """The arguments in order; random fills are drawn from one generator. Raises LaunchRefused."""
    rng = np.random.default_rng(seed)
    return tuple(_argument(text, index, rng) for index, text in enumerate(texts))


def _argument(text: str, index: int, rng: np.random.Generator) -> Arg:
    if found := BUFFER.fullmatch(text):
        role: Role = found["role"]  # type: ignore[assignment]  # the pattern allows only roles
        shape = tuple(int(size) for size in re.split(r"[,x ]+", found["shape"].strip()))
        array = _filled(text, role, _dtype(text, found["type"]), shape, found["type"], found["fill"], rng)
        return Buffer(array, role, found["name"] or f"arg{index}")
    if found := SCALAR.fullmatch(text):
        return _scalar(text, found["type"], found["value"])
    raise LaunchRefused(f"--arg {text!r}: write a buffer as in:f32[64,1024]=normal, a number as i64=1024")


def _dtype(text: str, type_: str) -> np.dtype[np.generic]:
    if type_ not in TYPES:
        raise LaunchRefused(f"--arg {text!r}: no type {type_}; use one of {', '.join(TYPES)}")
    return np.dtype(TYPES[type_])


def _scalar(text: str, type_: str, value: str) -> np.generic:
    dtype = _dtype(text, type_)
    try:
        if type_ == "bf16":
            return to_bf16(np.array([float(value)], np.float32))[0]
        number = float(value) if dtype.kind == "f" else int(value, 0)
        return dtype.type(number)
    except (ValueError, OverflowError) as error:
        raise LaunchRefused(f"--arg {text!r}: {value} is no {type_}") from error


def _filled(
    text: str, role: Role, dtype: np.dtype[np.generic], shape: tuple[int, ...], type_: str, fill: str | None,
    rng: np.random.Generator,
) -> np.ndarray:  # fmt: skip
    if role == "out":
        if fill is not None:
            raise LaunchRefused(f"--arg {text!r}: an out buffer starts uninitialised; use inout to give it a content")
        return np.zeros(shape, dtype)
    match fill:
        case None | "zeros":
            values = np.zeros(shape)
        case "ones":
            values = np.ones(shape)
        case "normal":
            values = rng.normal(size=shape)
        case "arange":
            values = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
        case _ if fill.endswith(".npy"):
            return _from_file(text, Path(fill), dtype, shape)
        case _:
            values = np.full(shape, _number(text, fill))
    return to_bf16(values.astype(np.float32)) if type_ == "bf16" else values.astype(dtype)


def _number(text: str, fill: str) -> float:
    try:
        return float(fill)
    except ValueError as error:
        raise LaunchRefused(f"--arg {text!r}: fill with normal, zeros, ones, arange, a number or FILE.npy") from error


def _from_file(text: str, path: Path, dtype: np.dtype[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    try:
        array: np.ndarray = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LaunchRefused(f"--arg {text!r}: cannot read {path}: {error}") from error
    if array.dtype != dtype or array.shape != shape:
        raise LaunchRefused(f"--arg {text!r}: {path} holds {array.dtype}{list(array.shape)}")
    return array
