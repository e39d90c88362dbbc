"""The effect's process: faults cross the pipe, death is noticed, nothing outlives the host."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from schemas.faults import Bug, Misconfigured, Poison, Transient
from services.runtime.effects import EffectLost, EffectProcess
from services.runtime.quiet import Device
from services.runtime.service import Quiet
from services.runtime.settings import Settings
from tests.fixtures.toy_service import ENTRY, Compile
from tests.fixtures.waiting import until


@pytest_asyncio.fixture
async def effect(tmp_path: Path) -> AsyncIterator[EffectProcess]:
    process = EffectProcess(ENTRY, Settings(data_dir=tmp_path))
    yield process
    await process.close()


def alive(pid: int) -> bool:
    """A process, and no zombie, has this pid."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


async def until_gone(pid: int) -> None:
    async def gone() -> bool:
        return not alive(pid)

    await until(gone)


async def test_one_child_serves_work_after_work(effect: EffectProcess) -> None:
    assert await effect.perform(Compile("a")) == await effect.perform(Compile("b"))
    assert effect.starts == 1


async def test_a_large_work_item_and_a_stray_print_cross_the_pipe(effect: EffectProcess) -> None:
    assert "done" in await effect.perform(Compile("print:" + "x" * 3_000_000))


@pytest.mark.parametrize(
    ("word", "fault"), [("poison", Poison), ("transient", Transient), ("misconfigured", Misconfigured)]
)
async def test_a_fault_is_raised_with_its_kind_and_words(
    effect: EffectProcess, word: str, fault: type[Exception]
) -> None:
    with pytest.raises(fault, match="why"):
        await effect.perform(Compile(f"{word}:why"))
    assert "done" in await effect.perform(Compile("a"))
    assert effect.starts == 1


async def test_a_killed_child_is_a_lost_effect_and_the_next_work_has_a_new_one(effect: EffectProcess) -> None:
    with pytest.raises(EffectLost, match="SIGKILL"):
        await effect.perform(Compile("die"))
    assert "done" in await effect.perform(Compile("a"))
    assert effect.starts == 2


async def test_a_child_that_died_idle_is_replaced_unnoticed(effect: EffectProcess) -> None:
    for _ in range(5):
        await effect.perform(Compile("a"))
        assert effect.pid
        os.kill(effect.pid, signal.SIGKILL)
        while alive(effect.pid):
            time.sleep(0.0001)  # noqa: ASYNC251  asyncio is not given the time to learn of the death
        assert "done" in await effect.perform(Compile("b"))


async def test_an_exception_that_is_no_fault_is_a_bug(effect: EffectProcess) -> None:
    with pytest.raises(Bug, match="status 1"):
        await effect.perform(Compile("bug"))


async def test_an_effect_that_cannot_be_opened_refuses_to_start(tmp_path: Path) -> None:
    effect = EffectProcess("tests.fixtures.toy_service:open_nothing", Settings(data_dir=tmp_path))
    with pytest.raises(Misconfigured, match="no compiler"):
        await effect.start()
    await effect.close()


async def test_cancelled_work_leaves_no_process_behind(effect: EffectProcess) -> None:
    await effect.start()
    child = effect.pid
    assert child
    working = asyncio.create_task(effect.perform(Compile("spawn:60")))
    grandchild = await _child_of(child)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await until_gone(child)
    await until_gone(grandchild)


async def test_a_killed_host_leaves_neither_effect_nor_lock(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from services.runtime.effects import EffectProcess\n"
        "from services.runtime.quiet import Device\n"
        "from services.runtime.service import Quiet\n"
        "from services.runtime.settings import Settings\n"
        "from tests.fixtures.toy_service import ENTRY, Compile\n"
        "async def main():\n"
        "    device = Device(Path(sys.argv[1]))\n"
        "    effect = EffectProcess(ENTRY, Settings(data_dir=Path(sys.argv[1])), (device.descriptor,))\n"
        "    await effect.start()\n"
        "    async with device.held(Quiet.EXCLUSIVE):\n"
        "        print(effect.pid, flush=True)\n"
        "        await effect.perform(Compile('sleep:60'))\n"
        "asyncio.run(main())\n"
    )
    host = await asyncio.create_subprocess_exec(sys.executable, "-c", script, str(tmp_path), stdout=subprocess.PIPE)
    assert host.stdout
    child = int(await host.stdout.readline())
    device = Device(tmp_path)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), device.held(Quiet.SHARED):
            pass
    host.kill()
    await host.wait()
    await until_gone(child)
    async with asyncio.timeout(5), device.held(Quiet.EXCLUSIVE):
        pass
    device.close()


async def _child_of(pid: int) -> int:
    children = Path(f"/proc/{pid}/task/{pid}/children")

    async def born() -> bool:
        return bool(children.read_text().split())

    await until(born)
    return int(children.read_text().split()[0])


async def test_a_killed_effect_leaves_no_temporary_file(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    effect = EffectProcess("tests.fixtures.littering_effect:open_effect", settings)
    await effect.start()
    working = asyncio.create_task(effect.perform("work"))

    async def littered() -> bool:
        return any(settings.temporary.rglob("litter"))

    await until(littered)
    working.cancel()
    await asyncio.wait({working})
    await effect.close()
    assert not list(settings.temporary.iterdir())
