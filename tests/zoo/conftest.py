import pytest

from kernel_lab.machine import machine_class
from kernel_lab.verify.court import Court, open_court
from schemas.work import MachineClass


@pytest.fixture(scope="session")
def court() -> Court:
    return open_court("auto")


@pytest.fixture(scope="session")
def machine() -> MachineClass:
    return machine_class()
