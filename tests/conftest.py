"""Real servers for every test that asks for one."""

pytest_plugins = ["tests.fixtures.factory", "tests.fixtures.nats", "tests.fixtures.postgres"]
