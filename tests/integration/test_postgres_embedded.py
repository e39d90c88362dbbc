"""The embedded server lives and dies with its owner, survives being killed, and says what is wrong with a folder."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from infra.embedded.postgres import EmbeddedPostgres, RunAs
from schemas.faults import Misconfigured

ROOT = Path(__file__).parents[2]
OWNER = """
import sys, time
from pathlib import Path
from infra.embedded.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, server.dsn(), flush=True)
time.sleep(600)
"""


async def ask(dsn: str, question: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


def socket_folder(dsn: str) -> Path:
    return Path(parse_qs(urlsplit(dsn).query)["host"][0])


def gone(pid: int) -> bool:
    """`pid` ends, within half a minute."""
    for _ in range(3000):
        try:
            if "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2:3]:
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.01)
    return False


def own_elsewhere(folder: Path) -> tuple[subprocess.Popen[str], int, str]:
    """Another process that owns a server in `folder`, the server's pid and how to reach it."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    pid, dsn = owner.stdout.readline().split()
    return owner, int(pid), dsn


async def test_it_keeps_its_data_over_stop_and_kill(own_postgres: EmbeddedPostgres) -> None:
    await ask(own_postgres.dsn(), "CREATE TABLE kept AS SELECT 7 AS a")
    dsn = own_postgres.dsn()
    own_postgres.kill()
    assert not own_postgres.running()
    own_postgres.start()
    assert own_postgres.dsn() == dsn
    assert await ask(dsn, "SELECT a FROM kept") == 7
    own_postgres.stop()
    own_postgres.start()
    assert await ask(own_postgres.dsn(), "SELECT a FROM kept") == 7


async def test_a_killed_server_answers_no_open_connection(own_postgres: EmbeddedPostgres) -> None:
    """A backend that calculates does not notice that its postmaster is gone, and would go on for an hour."""
    connection = await asyncpg.connect(own_postgres.dsn())
    backend = await connection.fetchval("SELECT pg_backend_pid()")
    endless = asyncio.create_task(connection.fetchval("SELECT count(*) FROM generate_series(1, 1e12)"))
    await asyncio.sleep(0.1)
    own_postgres.kill()
    with pytest.raises(asyncpg.PostgresConnectionError):
        async with asyncio.timeout(10):
            await endless
    assert gone(backend)
    own_postgres.start()


async def test_it_syncs_and_listens_on_no_port(own_postgres: EmbeddedPostgres) -> None:
    assert await ask(own_postgres.dsn(), "SHOW fsync") == "on"
    assert await ask(own_postgres.dsn(), "SHOW listen_addresses") == ""


def test_only_its_owner_reaches_the_socket(own_postgres: EmbeddedPostgres) -> None:
    folder = socket_folder(own_postgres.dsn())
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(str(folder / ".s.PGSQL.5432").encode()) < 107
    own_postgres.stop()
    assert not folder.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as nobody")
async def test_root_without_user_namespaces_runs_it_as_nobody(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", run_as=RunAs.NOBODY)
    server.start()
    try:
        assert await ask(server.dsn(), "SELECT 1") == 1
        assert Path(f"/proc/{server.pid}").stat().st_uid == 65534
        server.kill()
        server.start()
        assert await ask(server.dsn(), "SELECT 1") == 1
    finally:
        server.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_when_its_owner_is_killed(tmp_path: Path, how: signal.Signals) -> None:
    owner, pid, dsn = own_elsewhere(tmp_path / "postgres")
    owner.send_signal(how)
    owner.wait()
    assert gone(pid)
    left = socket_folder(dsn)
    assert left.exists()
    again = EmbeddedPostgres(tmp_path / "postgres")
    again.start()
    again.stop()
    assert not left.exists()


async def test_a_folder_left_by_a_killed_owner_and_server_is_taken_over(tmp_path: Path) -> None:
    owner, pid, dsn = own_elsewhere(tmp_path / "postgres")
    await ask(dsn, "CREATE TABLE kept AS SELECT 7 AS a")
    os.kill(pid, signal.SIGKILL)
    owner.kill()
    owner.wait()
    assert gone(pid)
    assert (tmp_path / "postgres/data/postmaster.pid").exists()
    server = EmbeddedPostgres(tmp_path / "postgres")
    server.start()
    assert await ask(server.dsn(), "SELECT a FROM kept") == 7
    server.stop()


async def test_a_lock_file_whose_number_now_belongs_to_another_process_is_no_obstacle(
    own_postgres: EmbeddedPostgres,
) -> None:
    lock = own_postgres.data / "postmaster.pid"
    own_postgres.kill()
    lines = lock.read_text().splitlines()
    lock.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    own_postgres.start()
    assert await ask(own_postgres.dsn(), "SELECT 1") == 1


async def test_an_empty_lock_file_is_no_obstacle(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.kill()
    (own_postgres.data / "postmaster.pid").write_text("")
    own_postgres.start()
    assert await ask(own_postgres.dsn(), "SELECT 1") == 1


def test_a_folder_that_is_served_already_is_refused(own_postgres: EmbeddedPostgres) -> None:
    with pytest.raises(Misconfigured, match=f"served by process {own_postgres.pid}"):
        EmbeddedPostgres(own_postgres.folder).start()
    assert own_postgres.running()


def test_a_cluster_half_made_is_made_again(tmp_path: Path) -> None:
    (tmp_path / "postgres/data.new/base").mkdir(parents=True)
    server = EmbeddedPostgres(tmp_path / "postgres")
    server.start()
    server.stop()
    assert not (tmp_path / "postgres/data.new").exists()


def test_a_folder_from_another_major_version_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "postgres/data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("15\n")
    with pytest.raises(Misconfigured, match="written by Postgres 15"):
        EmbeddedPostgres(tmp_path / "postgres").start()


def test_a_folder_that_is_no_cluster_is_refused_and_left_alone(tmp_path: Path) -> None:
    thesis = tmp_path / "postgres/data/thesis.txt"
    thesis.parent.mkdir(parents=True)
    thesis.write_text("mine")
    with pytest.raises(Misconfigured, match="no Postgres data folder"):
        EmbeddedPostgres(tmp_path / "postgres").start()
    assert thesis.read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_refused() -> None:
    with pytest.raises(Misconfigured, match="cannot write to /proc"):
        EmbeddedPostgres(Path("/proc/assay")).start()


def test_a_broken_cluster_is_refused_with_the_servers_own_words(own_postgres: EmbeddedPostgres) -> None:
    own_postgres.stop()
    shutil.rmtree(own_postgres.data / "global")
    with pytest.raises(Misconfigured, match=r"FATAL|PANIC|could not"):
        own_postgres.start()


async def test_after_a_failed_restart_it_serves_at_the_same_path_again(own_postgres: EmbeddedPostgres) -> None:
    dsn = own_postgres.dsn()
    own_postgres.kill()
    aside = own_postgres.data.rename(own_postgres.folder / "aside")
    (own_postgres.data).write_text("in the way")
    with pytest.raises(Misconfigured):
        own_postgres.start()
    own_postgres.data.unlink()
    aside.rename(own_postgres.data)
    own_postgres.start()
    assert own_postgres.dsn() == dsn
    assert await ask(dsn, "SELECT 1") == 1


def test_a_setting_that_the_server_refuses_is_named(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "postgres", {"shared_buffers": "nonsense"})
    with pytest.raises(Misconfigured, match="shared_buffers"):
        server.start()


def in_a_small_disk(script: str, folder: Path, size: str) -> subprocess.CompletedProcess[str]:
    """`script` ran with `folder` on a file system of `size`, in a mount namespace of its own."""
    folder.mkdir()
    program = textwrap.dedent(script)
    mount = f'mount -t tmpfs -o size={size} tmpfs "$1" && exec "$2" -c "$3" "$1"'
    return subprocess.run(
        ["unshare", "-U", "-r", "-m", "sh", "-c", mount, "sh", str(folder), sys.executable, program],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )


@pytest.mark.skipif(
    subprocess.run(["unshare", "-U", "-r", "-m", "true"], capture_output=True).returncode != 0,
    reason="a small disk needs a user namespace",
)
@pytest.mark.parametrize(("size", "filler_mib"), [("24m", 0), ("200m", 1)], ids=["too small to begin", "filled later"])
def test_a_full_disk_is_named(tmp_path: Path, size: str, filler_mib: int) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from infra.embedded.postgres import EmbeddedPostgres
        from schemas.faults import Misconfigured
        folder = Path(sys.argv[1])
        server = EmbeddedPostgres(folder)
        try:
            server.start()
            server.kill()
            if {filler_mib}:
                with (folder / "filler").open("wb") as filler:
                    try:
                        while True:
                            filler.write(bytes(1 << 20))
                            filler.flush()
                    except OSError:
                        pass
            server.start()
            print("started")
        except Misconfigured as error:
            print(error)
        finally:
            server.stop()
    """
    done = in_a_small_disk(script, tmp_path / "disk", size)
    assert "the disk is full" in done.stdout, done.stdout + done.stderr
