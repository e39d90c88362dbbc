"""Random kernels of a space: honest ones pass, and one that is not is told with what judges it again."""

import pytest

from kernel_lab.spaces import SPACES
from kernel_lab.spaces.space import Rendered, Space, Surroundings, Variant
from kernel_lab.verify.court import Court
from schemas.enums import Language, Reason
from schemas.work import Genome, MachineClass
from tests.zoo import honest

ZEROS = "#include <stdint.h>\nvoid reduce_sum(const float *x, float *y, int64_t N)\n{\n    y[0] = 0;\n}\n"


def _zeros(_genome: Genome, _around: Surroundings) -> Rendered:
    return Rendered(ZEROS, ("-O2",), 1)


def _always(_genome: Genome, _around: Surroundings) -> bool:
    return True


DISHONEST = Space("reduce_sum", "c", {"zeros": Variant("zeros", "computes nothing", (), _always, _zeros)})


def test_an_honest_kernel_of_a_space_is_verified(court: Court, machine: MachineClass) -> None:
    [tried] = honest.try_space(SPACES["reduce_sum", Language.C], 1, 7, court, machine)
    assert not tried.refused, tried.judgement.message


def test_a_refused_kernel_ends_with_1_and_says_where_it_is(
    court: Court, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(honest, "SPACES", {("reduce_sum", Language.C): DISHONEST})
    monkeypatch.setattr(honest, "open_court", lambda _isolation: court)
    assert honest.main(["--each", "1", "reduce_sum"]) == 1
    told = capsys.readouterr().out
    assert "1 of 1 refused" in told
    assert Reason.NOT_EXACT in told
    assert "source " in told


def test_no_kernels_show_nothing_and_are_refused() -> None:
    with pytest.raises(SystemExit) as ended:
        honest.main(["--each", "0"])
    assert ended.value.code == 2
