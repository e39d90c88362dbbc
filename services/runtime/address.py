"""Where a server listens: `HOST` or `HOST:PORT`, an IPv6 address in brackets when a port follows."""

import ipaddress
import re
from dataclasses import dataclass

from schemas.faults import Misconfigured

LOOPBACK = "127.0.0.1"
LARGEST_PORT = 65535
_WRITTEN = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.%]+)\]|(?P<host>[^:\[\]\s/]+))(?::(?P<port>\d{1,5}))?")


@dataclass(frozen=True)
class Address:
    """A place to listen at."""

    host: str
    port: int = 0
    """0 stands for any free one."""

    def __str__(self) -> str:
        return f"{self._bracketed(self.host)}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Only this machine reaches it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def reached_at(self) -> str:
        """The host by which this machine itself reaches it: a wildcard address is none."""
        return {"0.0.0.0": LOOPBACK, "::": "::1"}.get(self.host, self.host)  # noqa: S104 — compared, not bound

    def url(self, port: int) -> str:
        """`nats://…` for clients on this machine."""
        return f"nats://{self._bracketed(self.reached_at)}:{port}"

    @staticmethod
    def _bracketed(host: str) -> str:
        return f"[{host}]" if ":" in host else host


def parse_address(text: str) -> Address:
    """`text` as an address. Raises Misconfigured, showing how to write one."""
    written = _WRITTEN.fullmatch(text)
    if written is None:
        try:
            return Address(str(ipaddress.IPv6Address(text)))
        except ValueError:
            raise Misconfigured(f"{text!r} is no address: write HOST or HOST:PORT, as in 0.0.0.0:4222") from None
    port = int(written["port"] or 0)
    if port > LARGEST_PORT:
        raise Misconfigured(f"{text!r}: a port is at most {LARGEST_PORT}")
    return Address(written["six"] or written["host"], port)
