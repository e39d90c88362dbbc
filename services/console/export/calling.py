"""How a champion is called from numpy and from torch: programs written from the workload's declaration."""

from collections.abc import Iterable

from kernel_lab.workloads.workload import Buffer, Workload
from services.console.export.recorded_data import Case, buffers_of, is_read, is_written, read_by


def numpy_program(workload: Workload, first: Case) -> str:
    """`call_numpy.py`: a function of numpy arrays, and a check of it against the recorded case `first`."""
    return "\n".join(
        [
            f'"""{workload.summary}, from numpy. After `make`, `python3 call_numpy.py` compares one recorded case."""',
            "",
            "import ctypes",
            "from pathlib import Path",
            "",
            "import numpy as np",
            "",
            "HERE = Path(__file__).resolve().parent",
            'F32 = np.ctypeslib.ndpointer(np.float32, flags="C_CONTIGUOUS")',
            *_binding(workload, "F32"),
            "",
            "",
            *_function(
                workload, "np.ascontiguousarray({0}, np.float32)", 'np.array({0}, np.float32, order="C")', "np.empty"
            ),
            "",
            "",
            *_self_check(workload, first),
            "",
        ]
    )


def torch_program(workload: Workload) -> str:
    """`call_torch.py`: a function of torch tensors on the CPU. Nothing is copied that is float32 and contiguous."""
    return "\n".join(
        [
            f'"""{workload.summary}, from torch (CPU tensors, no gradient). Run `make` first."""',
            "",
            "import ctypes",
            "from pathlib import Path",
            "",
            "import torch",
            "",
            "HERE = Path(__file__).resolve().parent",
            *_binding(workload, "ctypes.c_void_p"),
            "",
            "",
            *_function(
                workload,
                '{0}.detach().to("cpu", torch.float32).contiguous()',
                '{0}.detach().to("cpu", torch.float32, copy=True).contiguous()',
                "torch.empty",
            ),
            "",
        ]
    )


def _binding(workload: Workload, pointer: str) -> list[str]:
    types = [pointer] * len(buffers_of(workload))
    types += ["ctypes.c_int64"] * len(workload.axes) + ["ctypes.c_float"] * len(workload.scalars)
    return [
        f'kernel = ctypes.CDLL(str(HERE / "lib{workload.name}.so")).{workload.name}',
        f"kernel.argtypes = [{', '.join(types)}]",
        "kernel.restype = None",
    ]


def _function(workload: Workload, read: str, read_and_written: str, empty: str) -> Iterable[str]:
    """The body is numpy's or torch's: how an array is read, copied because it is written over, and made."""
    is_torch = empty.startswith("torch")
    f32, pointer = ("torch.float32", "{0}.data_ptr()") if is_torch else ("np.float32", "{0}")
    names = [b.name for b in read_by(workload)]
    yield f"def {workload.name}({', '.join([*names, *_free_axes(workload), *_scalars(workload)])}):"
    yield f'    """{workload.formula}"""'
    for buffer in read_by(workload):
        how = read_and_written if is_written(workload, buffer) else read
        yield f"    {buffer.name} = {how.format(buffer.name)}"
    for axis, source in _axis_sources(workload).items():
        yield f"    {axis} = {source}"
    for buffer in read_by(workload):
        yield f"    if tuple({buffer.name}.shape) != {_shape(buffer)}:"
        yield f'        raise ValueError(f"{buffer.name} is {{tuple({buffer.name}.shape)}}, not {{{_shape(buffer)}}}")'
    for buffer in workload.outputs:
        if not is_read(workload, buffer):
            yield f"    {buffer.name} = {empty}({_shape(buffer)}, dtype={f32})"
    pointers = [pointer.format(b.name) for b in buffers_of(workload)]
    yield f"    kernel({', '.join([*pointers, *workload.axes, *workload.scalars])})"
    yield f"    return {', '.join(b.name for b in buffers_of(workload) if is_written(workload, b))}"


def _self_check(workload: Workload, first: Case) -> list[str]:
    inputs = [f'        {b.name} = read(file, "<f4").reshape({_concrete(b, first)})' for b in read_by(workload)]
    free = [str(first.axes[axis]) for axis in _free_axes(workload)]
    scalars = [f"{name}={value!r}" for name, value in zip(workload.scalars, first.scalars, strict=True)]
    arguments = ", ".join([*(b.name for b in read_by(workload)), *free, *scalars])
    results = [b.name for b in buffers_of(workload) if is_written(workload, b)]
    return [
        "def read(file, kind):",
        '    """The next array of a recorded case: its length, then its values."""',
        '    (count,) = np.fromfile(file, "<u8", 1)',
        "    return np.fromfile(file, kind, count)",
        "",
        "",
        'if __name__ == "__main__":',
        '    with (HERE / "data" / "case_0.bin").open("rb") as file:',
        *inputs,
        f"        {', '.join(results)} = {workload.name}({arguments})",
        f"        for got in ({', '.join(results)},):",
        '            index, want, bound = read(file, "<u8"), read(file, "<f8"), read(file, "<f8")',
        "            error = np.abs(got.ravel()[index].astype(np.float64) - want)",
        '            assert (error <= bound).all(), "outside the bound"',
        f'    print("{workload.name}: recorded case 0 is within the bound")',
    ]


def _axis_sources(workload: Workload) -> dict[str, str]:
    """`x.shape[0]` for every axis that an input has."""
    found: dict[str, str] = {}
    for buffer in read_by(workload):
        for place, part in enumerate(buffer.shape):
            if isinstance(part, str):
                found.setdefault(part, f"{buffer.name}.shape[{place}]")
    return {axis: found[axis] for axis in workload.axes if axis in found}


def _free_axes(workload: Workload) -> list[str]:
    """Axes that no input tells."""
    return [axis for axis in workload.axes if axis not in _axis_sources(workload)]


def _scalars(workload: Workload) -> list[str]:
    return [f"{name}={value!r}" for name, value in workload.scalars.items()]


def _shape(buffer: Buffer) -> str:
    return f"({', '.join(map(str, buffer.shape))}{',' if len(buffer.shape) == 1 else ''})"


def _concrete(buffer: Buffer, case: Case) -> str:
    return ", ".join(map(str, buffer.extent(case.axes)))
