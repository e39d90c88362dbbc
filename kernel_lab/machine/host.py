"""What the kernel says about this machine. Roots are arguments, so that any machine can be described in a test."""

from dataclasses import dataclass
from pathlib import Path

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Host:
    """Where /proc and /sys are, and what the process may run on."""

    proc: Path = Path("/proc")
    sys: Path = Path("/sys")

    def read(self, path: Path) -> str | None:
        """The text of a file, without its last line end; None when it cannot be read."""
        try:
            return path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            return None

    def cpu_fields(self) -> dict[str, str]:
        """The first processor's fields of /proc/cpuinfo."""
        fields: dict[str, str] = {}
        for line in (self.read(self.proc / "cpuinfo") or "").splitlines():
            name, colon, value = line.partition(":")
            if colon:
                fields.setdefault(name.strip(), value.strip())
        return fields


def parse_cpu_list(text: str) -> set[int]:
    """`0-3,8` as a set. Empty for text that is no list."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def parse_size(text: str) -> int:
    """`32768K` in bytes; 0 for text that is no size."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    unit = units.get(text[-1:].upper(), 1)
    digits = text.rstrip("kKmMgG")
    return int(digits) * unit if digits.isdigit() else 0
