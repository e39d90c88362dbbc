"""Real servers for every test that asks for one, and no test that is judged by the clock."""

from hypothesis import settings

settings.register_profile("assay", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("assay")

pytest_plugins = ["tests.fixtures.factory", "tests.fixtures.nats", "tests.fixtures.postgres"]
