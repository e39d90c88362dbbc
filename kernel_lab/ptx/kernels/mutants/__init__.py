"""Broken kernels that the executor must catch: the positive controls of its checkers.

Each is one of our kernels with a few words of its source changed, as a person or a model would get it wrong. Most of
them compute right numbers in lock step, so that only a checker sees them; where only the numbers are wrong,
`caught_by` is COMPARISON.
"""

from kernel_lab.ptx.kernels.mutants.memory import MEMORY
from kernel_lab.ptx.kernels.mutants.mutant import COMPARISON, Mutant
from kernel_lab.ptx.kernels.mutants.numbers import NUMBERS
from kernel_lab.ptx.kernels.mutants.races import RACES
from kernel_lab.ptx.kernels.mutants.waiting import WAITING

MUTANTS = (*MEMORY, *RACES, *WAITING, *NUMBERS)

__all__ = ["COMPARISON", "MUTANTS", "Mutant"]
