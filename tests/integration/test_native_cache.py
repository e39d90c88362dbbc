"""The lab's own programs are kept where nobody else can change them, home or no home."""

from pathlib import Path

import pytest

from kernel_lab.sandbox.native import build_once, default_cache_dir
from schemas.faults import Misconfigured

SOURCE = "int main(void) { return 0; }\n"


def test_without_a_home_the_programs_are_kept_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / ".cache" / "assay" / "native"
    for home in ("/proc/nowhere", "relative"):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setattr("os.access", lambda path, _mode: not str(path).startswith("/proc"))  # as for a user
        assert default_cache_dir().name.startswith("assay-native-")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_cache_dir() == Path("/somewhere/assay/native")


def test_a_cache_that_others_may_write_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "nothing.c"
    source.write_text(SOURCE)
    cache = tmp_path / "cache"
    assert build_once(source, cache).parent == cache
    cache.chmod(0o777)
    with pytest.raises(Misconfigured, match="written by others"):
        build_once(source, cache)  # what stands there may have been planted
