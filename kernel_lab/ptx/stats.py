"""What a kernel cost: instructions by opcode, lane utilisation, bank conflicts and sectors."""

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from kernel_lab.ptx.group import Group
from kernel_lab.ptx.memory.checked import Access
from kernel_lab.ptx.report import Stats

if TYPE_CHECKING:
    from kernel_lab.ptx.machine import Machine

Array = np.ndarray
Note = Callable[[Group, Array], None]
SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4


class Traffic:
    """Requests to shared and global memory, counted as warps make them."""

    def __init__(self) -> None:
        self.shared_requests = self.shared_wavefronts = self.least_wavefronts = 0
        self.global_requests = self.global_sectors = 0

    def note(self, space: str, access: Access) -> Note | None:
        """What counts the accesses of one instruction."""
        match space:
            case "global":
                return lambda g, addresses: self._global(g, access, addresses)
            case "shared":
                return lambda g, addresses: self._shared(g, access, addresses)
            case _:
                return None

    def _global(self, g: Group, access: Access, addresses: Array) -> None:
        first = g.full(addresses).astype(np.int64) // SECTOR_BYTES
        sectors = first[:, None] + np.arange(max(access.size // SECTOR_BYTES, 1))
        warps = np.repeat(g.lanes >> 5, sectors.shape[1])
        self.global_requests += np.unique(warps).size
        self.global_sectors += np.unique((warps << 40) | sectors.ravel()).size

    def _shared(self, g: Group, access: Access, addresses: Array) -> None:
        """A wavefront serves one word from each bank; wide accesses go in parts of 128 bytes a warp."""
        words = max(access.size // BANK_BYTES, 1)
        word = g.full(addresses).astype(np.int64)[:, None] // BANK_BYTES + np.arange(words)
        parts = (g.lanes & 31) // (32 // words) if words > 1 else np.zeros(g.n, np.int64)
        request = (g.lanes >> 5) * 32 + parts
        distinct = np.unique(np.repeat(request, words) << 34 | word.ravel())
        banks = Counter(((distinct >> 34) * BANKS + (distinct & (BANKS - 1))).tolist())
        worst: dict[int, int] = {}
        for key, count in banks.items():
            worst[key // BANKS] = max(worst.get(key // BANKS, 0), count)
        self.shared_requests += np.unique(g.lanes >> 5).size
        self.shared_wavefronts += sum(worst.values())
        self.least_wavefronts += len(worst)


def stats_of(machine: "Machine") -> Stats:
    """The counts of a run."""
    by_opcode: Counter[str] = Counter()
    issued = lanes = 0
    for index, (warps, active) in machine.block_runs.items():
        for code in machine.program.blocks[index].codes:
            by_opcode[code.instruction.text] += warps
            issued += warps
            lanes += active
    traffic = machine.traffic
    return Stats(
        dict(by_opcode.most_common()), machine.steps, lanes / (32 * issued) if issued else 0.0, traffic.shared_requests,
        traffic.shared_wavefronts, traffic.shared_wavefronts - traffic.least_wavefronts, traffic.global_requests,
        traffic.global_sectors,
    )  # fmt: skip
