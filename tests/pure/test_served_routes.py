"""Which routes a copy serves."""

from pathlib import Path

import pytest

from schemas.faults import Misconfigured
from services.runtime.routes import served_routes
from services.runtime.settings import Settings


@pytest.mark.parametrize(
    ("cpu", "null", "routes"),
    [(True, False, ("cpu_1",)), (True, True, ("cpu_1", "null")), (False, True, ("null",))],
)
def test_a_copy_serves_its_machine_class_and_null_as_the_settings_ask(
    tmp_path: Path, cpu: bool, null: bool, routes: tuple[str, ...]
) -> None:
    settings = Settings(data_dir=tmp_path, cpu_route=cpu, null_route=null)
    assert served_routes(settings, lambda: "cpu_1") == routes


def test_a_copy_that_would_serve_nothing_refuses_to_start(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, cpu_route=False, null_route=False)
    with pytest.raises(Misconfigured, match="ASSAY_CPU_ROUTE"):
        served_routes(settings, lambda: "cpu_1")
