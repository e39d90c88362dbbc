"""The C side of a claim: the header of the champion, and the tables that `bench.c` reads."""

import json
from collections.abc import Iterable, Sequence

from scipy.special import stdtrit

from kernel_lab.runner.start import thread_environment
from kernel_lab.workloads.workload import Buffer, Workload
from schemas.enums import Regime
from services.console.export.claim import Arm, Claim, TimedShape
from services.console.export.recorded_data import Case, buffers_of, is_read, is_written
from services.console.report import shape_text

LEVEL = 0.99
"""Of the interval that the benchmark prints: α = 1 % (measurement.md, 3), with no looks to share it."""
MAX_PAIRS = 64
_TYPES = """\
struct buffer {
    const char *name;
    int is_read, is_written;
};
struct size {
    const char *name;
    int64_t axes[AXES];
    float scalars[SCALARS + 1]; /* and a zero */
    uint64_t elements[BUFFERS];
};
struct check_case {
    struct size size;
    const char *file;
};
struct arm {
    const char *name, *object;
    const char *const *environment; /* names and values, ended by NULL */
};
struct timed_shape {
    int check; /* its case */
    int arm;   /* whom the champion is timed against */
    double weight, recorded_ns, recorded_baseline_ns;
    const char *recorded_baseline;
};
"""


def object_path(arm: Arm) -> str:
    """Where the Makefile leaves an arm's object, relative to the exported folder."""
    return f"build/{arm.name}/k.so"


def champion_header(claim: Claim) -> str:
    """`<workload>.h`: the prototype, with what each argument is."""
    workload = claim.workload
    guard = f"ASSAY_{workload.name.upper()}_H"
    arguments = [f" *   {b.name}: float {_extent(b)}, {_role(workload, b)}" for b in buffers_of(workload)]
    arguments += [f" *   {axis}: at least {workload.axis_minimum[axis]}" for axis in workload.axes]
    arguments += [f" *   {name}: verified and timed with {value:g}" for name, value in workload.scalars.items()]
    return "\n".join(
        [
            f"/* {workload.summary}.",
            " *",
            f" *   {workload.formula}",
            " *",
            *arguments,
            " *",
            " * Arrays are row-major and contiguous, aligned to 4 bytes; what is written overlaps nothing.",
            f" * No state is kept. It uses omp_get_max_threads() threads and was timed with {claim.champion.threads}.",
            " */",
            f"#ifndef {guard}",
            f"#define {guard}",
            "#include <stdint.h>",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            f"{workload.signature()};",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def claim_header(claim: Claim, cases: Sequence[Case], timed: Sequence[int], said: str) -> str:
    """`claim.h`: the benchmark's tables. `timed[i]` is the case of the claim's i-th shape; `said` is the claim."""
    workload, comparison = claim.workload, claim.crowned.fact.comparison
    sizes = {
        "BUFFERS": len(buffers_of(workload)),
        "AXES": len(workload.axes),
        "SCALARS": len(workload.scalars),
        "CASES": len(cases),
        "ARMS": len(claim.arms),
        "SHAPES": len(claim.shapes),
        "MAX_PAIRS": MAX_PAIRS,
        "IS_HOT": int(comparison.regime is Regime.HOT),
    }
    counts = ", ".join(f"{name} = {value}" for name, value in sizes.items())
    return "\n".join(
        [
            "/* Written by `assay champion export`: the claim, its sizes, and who is timed. */",
            "#include <stdint.h>",
            f"enum {{ {counts} }};",
            f"#define LLC_BYTES {claim.task.machine.llc_bytes}ll",
            f"#define ENTRY {_text(workload.name)}",
            f"#define GOAL {_text(claim.crowned.fact.goal_id)}",
            f"#define CLAIM {_text(said)}",
            f"#define REMARK {_text(remark(claim))}",
            f"#define LEVEL_PERCENT {100 * LEVEL:.2f}",
            _TYPES,
            *_call(workload),
            *_table("buffer buffers[BUFFERS]", (_buffer(workload, b) for b in buffers_of(workload))),
            *_table("check_case cases[CASES]", (_case(case, number) for number, case in enumerate(cases))),
            *(_environment(number, arm) for number, arm in enumerate(claim.arms)),
            *_table("arm arms[ARMS]", (_arm(number, arm) for number, arm in enumerate(claim.arms))),
            *_table("timed_shape shapes[SHAPES]", _shapes(claim, timed)),
            f"/* Student's t at {LEVEL:g}, two-sided, by the number of pairs. */",
            f"static const double t_quantile[MAX_PAIRS + 1] = {{{', '.join(_quantiles())}}};",
            "",
        ]
    )


def remark(claim: Claim) -> str:
    """What a reader must know where the benchmark does not time what was claimed; empty when it does."""
    return "".join(_stand_in(shape) for shape in claim.shapes if shape.stands_in)


def _stand_in(shape: TimedShape) -> str:
    row, opponent = shape.row, shape.opponent.name
    raced, beside = row.baseline_ns / 1e6, (shape.library_ns or 0.0) / 1e6
    return (
        f"note: at {shape_text(row.axes)} the claim is against {row.baseline}, a library ({raced:.4g} ms when raced). "
        f"{opponent}, the strongest C baseline ({beside:.4g} ms), stands in for it here.\n"
    )


def _call(workload: Workload) -> list[str]:
    pointers = [f"b[{number}]" for number in range(len(buffers_of(workload)))]
    axes = [f"size->axes[{number}]" for number in range(len(workload.axes))]
    scalars = [f"size->scalars[{number}]" for number in range(len(workload.scalars))]
    prototype = workload.signature().replace(f"void {workload.name}(", "typedef void kernel(", 1)
    return [
        f"{prototype};",
        "static inline void call_kernel(kernel *run, float *const *b, const struct size *size)",
        "{",
        f"    run({', '.join(pointers + axes + scalars)});",
        "}",
    ]


def _table(declaration: str, rows: Iterable[str]) -> list[str]:
    return [f"static const struct {declaration} = {{", *(f"    {row}," for row in rows), "};"]


def _buffer(workload: Workload, buffer: Buffer) -> str:
    return f"{{{_text(buffer.name)}, {int(is_read(workload, buffer))}, {int(is_written(workload, buffer))}}}"


def _case(case: Case, number: int) -> str:
    axes, elements = ", ".join(map(str, case.axes.values())), ", ".join(map(str, case.elements))
    scalars = ", ".join(map(repr, (*map(float, case.scalars), 0.0)))
    return f"{{{{{_text(case.name)}, {{{axes}}}, {{{scalars}}}, {{{elements}}}}}, {_text(data_path(number))}}}"


def data_path(number: int) -> str:
    """The file of the case with this number, relative to the exported folder."""
    return f"data/case_{number}.bin"


def _environment(number: int, arm: Arm) -> str:
    words = [word for pair in thread_environment(arm.threads).items() for word in pair]
    return f"static const char *const environment_{number}[] = {{{', '.join(map(_text, words))}, 0}};"


def _arm(number: int, arm: Arm) -> str:
    return f"{{{_text(arm.name)}, {_text(object_path(arm))}, environment_{number}}}"


def _shapes(claim: Claim, timed: Sequence[int]) -> Iterable[str]:
    numbers = {arm.name: number for number, arm in enumerate(claim.arms)}
    for shape, check in zip(claim.shapes, timed, strict=True):
        row = shape.row
        times = f"{row.weight!r}, {row.candidate_ns!r}, {row.baseline_ns!r}"
        yield f"{{{check}, {numbers[shape.opponent.name]}, {times}, {_text(row.baseline)}}}"


def _quantiles() -> Iterable[str]:
    return ("0", "0", *(f"{float(stdtrit(pairs - 1, (1 + LEVEL) / 2)):.6f}" for pairs in range(2, MAX_PAIRS + 1)))


def _extent(buffer: Buffer) -> str:
    return f"[{', '.join(map(str, buffer.shape))}]"


def _role(workload: Workload, buffer: Buffer) -> str:
    if is_read(workload, buffer) and is_written(workload, buffer):
        return "read and written"
    return "read" if is_read(workload, buffer) else "written"


def _text(text: str) -> str:
    """A C string literal. JSON escapes what C does, once the text is ASCII or plain UTF-8."""
    return json.dumps(text, ensure_ascii=False)
