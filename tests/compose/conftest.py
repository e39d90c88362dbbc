"""One engine, one set of images and one running stack for all tests here."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compose.engine import BUILDS_S, Engine, NoEngine, base_images, running_engine
from tests.compose.stack import Stack

REQUIRED = os.environ.get("ASSAY_REQUIRE_COMPOSE") == "1"


def refuse(reason: str) -> None:
    """Without containers these tests are skipped with the reason, or fail where they are required."""
    if REQUIRED:
        pytest.fail(f"ASSAY_REQUIRE_COMPOSE=1, and {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        with running_engine() as found:
            yield found
    except NoEngine as reason:
        refuse(str(reason))


@pytest.fixture(scope="session")
def images(engine: Engine) -> dict[str, str]:
    """The base images, from which nothing is built yet."""
    try:
        return base_images(engine)
    except NoEngine as reason:
        refuse(str(reason))
        raise


@pytest.fixture(scope="session")
def stack(engine: Engine, images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A composed factory with two compilers and two verifiers, ready for goals."""
    made = Stack(engine, tmp_path_factory.mktemp("stack"), dict(images))
    try:
        made.compose("build", "librarian", "compiler", timeout_s=BUILDS_S)
        made.up("--scale", "compiler=2", "--scale", "verifier=2")
        made.await_healthy("librarian", "proposer", "compiler", "verifier", "benchmarker")
        yield made
    finally:
        made.down()


@pytest.fixture
def fresh(engine: Engine, images: dict[str, str], stack: Stack, tmp_path: Path) -> Iterator[Stack]:
    """Another project over the same images, not started."""
    made = Stack(engine, tmp_path, dict(images))
    yield made
    made.down()
