"""What every backend in the table must keep."""

import hashlib

import numpy as np
import pytest

from kernel_lab.backends import BACKENDS
from kernel_lab.backends.backend import Backend, Built, NotBuilt
from kernel_lab.machine import machine_class
from kernel_lab.spaces import SPACES
from kernel_lab.spaces.fingerprint import fingerprint
from kernel_lab.spaces.space import Surroundings
from schemas.enums import Language, Reason
from schemas.goal import SpaceLimits
from schemas.work import Kernel, MachineClass

TABLE = pytest.mark.parametrize("language", BACKENDS, ids=lambda language: language.value)


@pytest.fixture(scope="module")
def machine() -> MachineClass:
    return machine_class()


def kernel_of(language: Language, machine: MachineClass, seed: int = 0) -> Kernel:
    around = Surroundings(machine.vector_bits, machine.threads, deterministic=False, forbid=())
    space = SPACES["rms_norm", language.value]
    genome = space.sample(np.random.default_rng(seed), around, SpaceLimits())
    assert genome is not None
    rendered = space.render(genome, around)
    return Kernel(
        language=language,
        source=rendered.source,
        flags=rendered.flags,
        threads=rendered.threads,
        genome=genome,
        fingerprint=fingerprint(rendered.source, rendered.flags, rendered.threads, machine.route),
    )


@TABLE
def test_a_backend_stands_under_its_language(language: Language) -> None:
    backend: Backend = BACKENDS[language]
    assert backend.language == language.value


@TABLE
def test_the_same_kernel_gives_the_same_bytes(language: Language, machine: MachineClass) -> None:
    kernel = kernel_of(language, machine)
    first = BACKENDS[language].compile(kernel, "rms_norm", machine)
    again = BACKENDS[language].compile(kernel, "rms_norm", machine)
    assert isinstance(first, Built)
    assert isinstance(again, Built)
    assert first.object == again.object
    assert first.sha256 == hashlib.sha256(first.object).hexdigest()
    assert (first.command, first.toolchain) == (again.command, again.toolchain)


@TABLE
def test_different_kernels_give_different_bytes(language: Language, machine: MachineClass) -> None:
    objects = set()
    for seed in (1, 2):
        built = BACKENDS[language].compile(kernel_of(language, machine, seed), "rms_norm", machine)
        assert isinstance(built, Built)
        objects.add(built.object)
    assert len(objects) == 2


@TABLE
def test_the_command_names_no_path_of_this_host(language: Language, machine: MachineClass) -> None:
    built = BACKENDS[language].compile(kernel_of(language, machine), "rms_norm", machine)
    assert isinstance(built, Built)
    assert not any(part.startswith("/") for part in built.command)
    assert {"k.c", "k.so"} <= set(built.command)
    assert built.toolchain


@TABLE
def test_an_empty_source_is_a_value_not_an_exception(language: Language, machine: MachineClass) -> None:
    kernel = Kernel(language=language, source=" \n", fingerprint="0" * 64)
    outcome = BACKENDS[language].compile(kernel, "rms_norm", machine)
    assert isinstance(outcome, NotBuilt)
    assert outcome.reason is Reason.NOT_TEXT
