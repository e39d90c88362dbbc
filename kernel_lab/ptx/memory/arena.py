"""Global memory as one range of addresses: buffers, module variables and parameters with red zones between them."""

from dataclasses import dataclass

import numpy as np

RED_ZONE_BYTES = 65536
"""Chosen: longer than a tile row of our kernels, so a step too far lands in no neighbour."""
ALIGNMENT_BYTES = 256
"""What cudaMalloc guarantees (CUDA C++ Programming Guide, "Device memory accesses")."""
POISON = 0xFB
"""Chosen: as float a large negative number, as bf16 and f16 as well, as an address out of every buffer."""


@dataclass(frozen=True)
class Region:
    """One buffer: bytes [start, stop)."""

    name: str
    start: int
    stop: int
    role: str


class Layout:
    """Where each region lies; addresses begin behind a first red zone, so null is in none."""

    def __init__(self, first: int = RED_ZONE_BYTES, zone: int = RED_ZONE_BYTES, limit: int = 1 << 34) -> None:
        self.regions: list[Region] = []
        self.end = first
        self._zone, self.limit = zone, limit

    def add(self, name: str, size_bytes: int, role: str, align: int = ALIGNMENT_BYTES) -> Region:
        """Room for a region, with a red zone behind it."""
        start = -(-self.end // align) * align
        region = Region(name, start, start + size_bytes, role)
        self.regions.append(region)
        self.end = region.stop + self._zone
        return region

    @property
    def size(self) -> int:
        """All bytes, in whole 64-byte rows."""
        return -(-self.end // 64) * 64

    def owner(self, address: int) -> tuple[str, str]:
        """The buffer that an address lies in or is nearest to, and how far outside it lies (empty: inside)."""
        if not self.regions:
            return "", "there is no buffer"
        nearest = min(self.regions, key=lambda region: _distance(region, address))
        if not _distance(nearest, address):
            return nearest.name, ""
        if address < nearest.start:
            return nearest.name, f"{nearest.start - address} bytes before {nearest.name}"
        return nearest.name, f"{address - nearest.stop} bytes past the end of {nearest.name}"


def _distance(region: Region, address: int) -> int:
    return max(region.start - address, address - region.stop + 1, 0)


def raw_bytes(array: np.ndarray) -> np.ndarray:
    """The bytes of an array, in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
