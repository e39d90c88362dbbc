"""What the memory benchmark makes of its samples."""

import pytest

from benchmarks.flat_memory import Samples, growth_percent


def test_growth_is_the_last_quarter_over_the_second() -> None:
    assert growth_percent([1, 1, 10, 10, 10, 10, 11, 11]) == pytest.approx(10.0)


def test_a_process_that_was_seen_once_has_no_growth() -> None:
    samples = Samples([0.0, 1.0, 2.0, 3.0], {"librarian": [80.0] * 4, "a child about to start": [60.0]})
    assert [label for label, _ in samples.lasting()] == ["librarian"]
