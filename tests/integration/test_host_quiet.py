"""Who may use a device together, with real locks in real processes."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.faults import Misconfigured
from services.runtime.quiet import Device
from services.runtime.service import Quiet

HOLDER = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from services.runtime.quiet import Device\n"
    "from services.runtime.service import Quiet\n"
    "with Device(Path(sys.argv[1])).held_blocking(Quiet(sys.argv[2])):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(60)\n"
)


@pytest.fixture
def device(tmp_path: Path) -> Iterator[Device]:
    made = Device(tmp_path)
    yield made
    made.close()


def holder(folder: Path, quiet: Quiet) -> subprocess.Popen[bytes]:
    """Another process that holds the device until it is killed."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(folder), quiet], stdout=subprocess.PIPE)
    assert process.stdout
    assert process.stdout.readline() == b"held\n"
    return process


async def is_free(device: Device, quiet: Quiet) -> bool:
    try:
        async with asyncio.timeout(0.1), device.held(quiet):
            return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    ("held", "asked", "free"),
    [
        (Quiet.SHARED, Quiet.SHARED, True),
        (Quiet.SHARED, Quiet.EXCLUSIVE, False),
        (Quiet.EXCLUSIVE, Quiet.SHARED, False),
        (Quiet.EXCLUSIVE, Quiet.EXCLUSIVE, False),
        (Quiet.EXCLUSIVE, Quiet.NONE, True),
    ],
)
async def test_work_shares_and_a_measurement_is_alone_and_a_killed_holder_frees_the_device(
    device: Device, tmp_path: Path, held: Quiet, asked: Quiet, free: bool
) -> None:
    process = holder(tmp_path, held)
    assert await is_free(device, asked) is free
    process.kill()
    process.communicate()
    assert await is_free(device, asked)


async def test_overlapping_sharers_do_not_starve_a_measurement(tmp_path: Path) -> None:
    sharers = [Device(tmp_path) for _ in range(3)]
    overlapping = asyncio.Event()
    stop = asyncio.Event()

    async def share(device: Device, offset_s: float) -> None:
        await asyncio.sleep(offset_s)
        while not stop.is_set():
            async with device.held(Quiet.SHARED):
                overlapping.set()
                await asyncio.sleep(0.06)

    sharing = [asyncio.create_task(share(device, 0.02 * n)) for n, device in enumerate(sharers)]
    await overlapping.wait()
    measurer = Device(tmp_path)
    async with asyncio.timeout(10), measurer.held(Quiet.EXCLUSIVE):
        stop.set()
    await asyncio.gather(*sharing)
    for device in (*sharers, measurer):
        device.close()


async def test_a_cancelled_waiter_gives_the_gate_back(device: Device, tmp_path: Path) -> None:
    other = Device(tmp_path)
    async with other.held(Quiet.SHARED):
        assert not await is_free(device, Quiet.EXCLUSIVE)
        assert await is_free(device, Quiet.SHARED)
    other.close()


def test_devices_of_different_names_do_not_disturb_each_other(tmp_path: Path) -> None:
    cpu, gpu = Device(tmp_path, "cpu"), Device(tmp_path, "gpu0")
    with cpu.held_blocking(Quiet.EXCLUSIVE), gpu.held_blocking(Quiet.EXCLUSIVE):
        pass
    cpu.close()
    gpu.close()


def test_a_folder_that_cannot_be_written_is_misconfigured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(Misconfigured, match="ASSAY_QUIET_DIR"):
        Device(tmp_path / "file")
