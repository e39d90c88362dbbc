"""How a kernel is launched: grid, arguments, limits, and which checkers look on."""

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from schemas.faults import Misconfigured

Role = Literal["in", "out", "inout"]

STEP_BUDGET = 2_000_000
"""Chosen: a kernel of our own size needs under 200,000 steps, and two million end within about a minute."""


class LaunchRefused(Misconfigured):
    """The launch does not fit the kernel or the limits; the message says what to change."""


@dataclass(frozen=True)
class Buffer:
    """A global array handed to the kernel by address.

    `in` is read only, `out` starts uninitialised and must be written in full, `inout` is both and owes no coverage.
    The array itself is never written: the result is in `Report.outputs[name]`.
    """

    array: np.ndarray
    role: Role
    name: str


Arg = Buffer | np.generic | int | float
"""One kernel parameter. A numpy scalar must have the parameter's size; a Python number is converted to its type."""


@dataclass(frozen=True)
class Launch:
    """One launch of one entry. `shared_bytes` is the dynamic shared memory."""

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: tuple[Arg, ...]
    shared_bytes: int = 0
    step_budget: int = STEP_BUDGET
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class Checks:
    """One switch per checker. Switching one off lets its mutants through: that is what it is for."""

    bounds: bool = True
    alignment: bool = True
    uninitialised_global: bool = True
    uninitialised_shared: bool = True
    uninitialised_local: bool = True
    uninitialised_register: bool = True
    shared_race: bool = True
    global_race: bool = True
    divergent_barrier: bool = True
    inactive_lanes: bool = True
    async_before_wait: bool = True
    barrier_misuse: bool = True
    output_coverage: bool = True

    @classmethod
    def only(cls, *names: str) -> "Checks":
        """Just these checkers."""
        return cls(**{field.name: field.name in names for field in fields(cls)})


ALL = Checks()
NONE = Checks.only()
