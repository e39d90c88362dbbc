"""Real servers for every test that asks for one, no test that is judged by the clock, and which tests are fast."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("assay", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("assay")

pytest_plugins = ["tests.fixtures.factory", "tests.fixtures.nats", "tests.fixtures.postgres"]

FAST_FOLDERS = {"pure", "architecture", "contract"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever stands in a folder of fast tests and is not called slow is fast."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in FAST_FOLDERS and item.get_closest_marker("slow") is None:
            item.add_marker("fast")
