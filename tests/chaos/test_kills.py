"""Processes are killed with kill -9 while a goal runs; nothing is lost and nothing happens twice."""

import pytest

from tests.e2e.test_goal_path import assert_every_fact_once
from tests.fixtures.factory import Factory, null_goal

pytestmark = pytest.mark.slow

SERVICES = ("proposer", "compiler", "verifier", "benchmarker", "librarian")
BUSY_GOAL = null_goal(
    budget={"candidates": 600, "wall": "10m", "stagnation": 1000},
    search={"generation_size": 100, "islands": 2, "seed": 3},
)


def assert_whole(factory: Factory, goal_id: str) -> None:
    state = factory.wait_for_end(goal_id, 600.0)
    assert state["outcome"] == "champion"
    assert state["proposed"] == 600
    assert_every_fact_once(factory.facts(goal_id))
    verified = factory.json("events", "verify")
    assert verified["intact"] is True
    assert verified["divergent_duplicates"] == 0


def test_one_of_two_copies_of_every_service_is_killed_and_the_goal_ends_with_every_fact_once(factory: Factory) -> None:
    factory.up(*(f"--copies={service}=2" for service in SERVICES))
    factory.submit(BUSY_GOAL, "copies")
    for n, service in enumerate(SERVICES, start=1):
        factory.wait_for_candidates("copies", 100 * n)
        factory.kill(service)
    assert_whole(factory, "copies")


def test_nats_and_then_postgres_are_killed_under_load_and_nothing_is_lost(factory: Factory) -> None:
    factory.up()
    factory.submit(BUSY_GOAL, "servers")
    factory.wait_for_candidates("servers", 100)
    factory.kill("nats")
    factory.wait_for_candidates("servers", 300)
    factory.kill("postgres")
    assert_whole(factory, "servers")


@pytest.mark.long
def test_a_factory_killed_whole_goes_on_where_it_was(factory: Factory) -> None:
    factory.up()
    factory.submit(BUSY_GOAL, "whole")
    factory.wait_for_candidates("whole", 200)
    factory.kill("factory")
    factory.up()
    assert_whole(factory, "whole")
