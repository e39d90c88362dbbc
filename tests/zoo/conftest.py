"""One court for the whole zoo. An inmate is compiled once, however often it is judged."""

from dataclasses import dataclass, field, replace

import pytest

from kernel_lab.backends.backend import Backend, Built, NotBuilt
from kernel_lab.machine import machine_class
from kernel_lab.verify.court import Court, open_court
from schemas.work import Kernel, MachineClass


@dataclass
class Remembering:
    """A backend that does not compile the same kernel twice."""

    backend: Backend
    language: str = "c"
    known: dict[tuple[str, str], Built | NotBuilt] = field(default_factory=dict)

    def compile(self, kernel: Kernel, entry: str, machine: MachineClass) -> Built | NotBuilt:
        key = (kernel.source, entry)
        if key not in self.known:
            self.known[key] = self.backend.compile(kernel, entry, machine)
        return self.known[key]


@pytest.fixture(scope="session")
def court() -> Court:
    opened = open_court("auto")
    return replace(opened, backend=Remembering(opened.backend))


@pytest.fixture(scope="session")
def machine() -> MachineClass:
    return machine_class()
