"""Fingerprints and launch data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel_lab.spaces.fingerprint import fingerprint, normalised
from kernel_lab.spaces.launch import (
    Launch,
    LaunchProblem,
    flag_is_allowed,
    kernel_from_source,
    launch_line,
    parse_launch,
    read_source,
)
from schemas.enums import Language, Reason
from schemas.work import MAX_SOURCE_BYTES, Kernel

SOURCE = '#include <math.h>\nint f(int a) {\n    return a + 1; // one\n}\nconst char *s = "// no /* comment */  ";\n'


def same(left: str, right: str) -> bool:
    return fingerprint(left, (), 1, "cpu_1") == fingerprint(right, (), 1, "cpu_1")


@pytest.mark.parametrize(
    "other",
    [
        SOURCE.replace("// one", "/* two\n lines */"),
        SOURCE.replace("    return", "\treturn"),
        "// assay: {}\n" + SOURCE,
        SOURCE.replace("{\n", "\n{\n\n"),
        SOURCE.replace("(int a)", "( int  a )"),
        SOURCE.replace("a + 1", "a + \\\n 1"),
    ],
)
def test_comments_and_blanks_do_not_change_a_fingerprint(other: str) -> None:
    assert same(SOURCE, other)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (SOURCE, SOURCE.replace("1;", "2;")),
        ('char *s = "a b";', 'char *s = "a  b";'),
        ('char *s = "//x";', 'char *s = "";'),
        ("int x = a + ++b;", "int x = a ++ + b;"),
        ("int longer;", "in tlonger;"),
        ("#define A 1\nint a;", "#define A 1 int a;"),
        ("char c = '\"'; // x\nint y;", "char c = '\"'; int z;"),
    ],
)
def test_different_programs_have_different_fingerprints(left: str, right: str) -> None:
    assert not same(left, right)


def test_flags_threads_and_target_are_part_of_a_fingerprint() -> None:
    prints = {
        fingerprint(SOURCE, (), 1, "cpu_1"),
        fingerprint(SOURCE, ("-O2",), 1, "cpu_1"),
        fingerprint(SOURCE, (), 2, "cpu_1"),
        fingerprint(SOURCE, (), None, "cpu_1"),
        fingerprint(SOURCE, (), 1, "cpu_2"),
    }
    assert len(prints) == 5


@given(st.text(max_size=300))
def test_any_text_has_a_fingerprint_and_normalising_twice_changes_nothing_it_depends_on(text: str) -> None:
    assert len(fingerprint(text, (), None, "x")) == 64
    assert isinstance(normalised(text), str)


@given(st.lists(st.sampled_from(["-O2", "-ffast-math", "-mprefer-vector-width=512"])), st.integers(1, 64) | st.none())
def test_a_launch_line_reads_back(flags: list[str], threads: int | None) -> None:
    launch = Launch(tuple(flags), threads)
    assert parse_launch(f"{launch_line(launch)}\nint x;") == launch


def test_a_source_without_launch_data_asks_for_nothing() -> None:
    assert parse_launch("int x;\n// assay: {}") == Launch()


@pytest.mark.parametrize(
    "line",
    [
        "// assay: {",
        "// assay: []",
        '// assay: {"grid": [1]}',
        '// assay: {"flags": "-O2"}',
        '// assay: {"flags": [1]}',
        '// assay: {"threads": 0}',
        '// assay: {"threads": true}',
        '// assay: {"threads": 1.5}',
        '// assay: {"threads": 100000}',
        "// assay: " + "[" * 20_000,
    ],
)
def test_broken_launch_data_is_a_problem_that_says_where(line: str) -> None:
    problem = parse_launch(f"{line}\nint x;")
    assert isinstance(problem, LaunchProblem)
    assert problem.reason is Reason.BAD_LAUNCH_DATA
    assert "line 1" in problem.message


@pytest.mark.parametrize("flag", ["-O2", "-Ofast", "-ffast-math", "-fno-math-errno", "-funroll-loops", "-mtune=znver3"])
def test_optimisation_flags_are_allowed(flag: str) -> None:
    assert flag_is_allowed(flag)


REFUSED = (
    *("-march=native", "-mtune=native", "-o/tmp/x", "-I/etc", "-include", "-fplugin=x.so", "-Wl,-z", "@file"),
    *("-O2 -I/", "-DX=1", "-O2\n", "-specs=x", "-wrapper", "", "k.c", "-save-temps", "-B/tmp", "-fsanitize=address"),
)


@pytest.mark.parametrize("flag", REFUSED)
def test_flags_that_touch_files_the_host_or_the_linker_are_refused(flag: str) -> None:
    assert not flag_is_allowed(flag)
    problem = parse_launch(f"{launch_line(Launch((flag,)))}\n")
    assert isinstance(problem, LaunchProblem)
    assert problem.reason is Reason.FLAG_NOT_ALLOWED


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", Reason.NOT_TEXT),
        (b" \n", Reason.NOT_TEXT),
        (b"\x7fELF\xff", Reason.NOT_TEXT),
        (b"int x;\0", Reason.NOT_TEXT),
        (b"/" * (MAX_SOURCE_BYTES + 1), Reason.TOO_LARGE),
    ],
)
def test_a_body_that_is_no_source_says_why(body: bytes, reason: Reason) -> None:
    problem = read_source(body)
    assert isinstance(problem, LaunchProblem)
    assert problem.reason is reason


def test_a_file_becomes_a_kernel_with_the_launch_data_of_its_first_line() -> None:
    kernel = kernel_from_source(b'// assay: {"flags": ["-O2"], "threads": 2}\nint x;', Language.C, "cpu_1")
    assert isinstance(kernel, Kernel)
    assert (kernel.flags, kernel.threads) == (("-O2",), 2)
    assert kernel.fingerprint == fingerprint("int x;", ("-O2",), 2, "cpu_1")
