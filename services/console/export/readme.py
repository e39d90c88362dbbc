"""The README of an exported folder."""

from services.console.export.c_tables import remark
from services.console.export.claim import Arm, Claim, TimedShape
from services.console.export.makefile import library_name, source_name
from services.console.render import ratio_text, time_text
from services.console.report import shape_text, stated

_TEXT = """\
# {name}: a champion of Assay

{summary}: `{formula}`

## The claim

{claim}

| shape | baseline | its time | this kernel |
|---|---|---|---|
{rows}

{remark}Goal `{goal}`, candidate `{candidate}`. `evidence.json` has the facts, the raw samples or their
digest, the machine, the seeds, and where each fact stands in the hash chain of the log.

## Repeat it

gcc, make and libc are enough. Let nothing else run beside it.

```
make          # the library and the benchmark
make check    # results against recorded float64 ones
make run      # that, then the race against the baseline (./bench exits 0 repeated, 5 not faster here, 1 wrong)
make digest   # whether your compiler gives the very bytes that were raced
```

The claim is about the machine named above; on another machine it is another claim.

## Call it

- From C: include `{header}`, link `{library}` and OpenMP (`-fopenmp`).
- From numpy: `call_numpy.py`. From torch, on the CPU: `call_torch.py`.
- It uses `omp_get_max_threads()` threads and was timed with {threads}: set `OMP_NUM_THREADS`.

## What is here

| file | what |
|---|---|
| `champion.c`, `{header}` | the kernel and its prototype |
{baselines}
| `bench.c`, `arm.h`, `data.h` | the benchmark |
| `claim.h`, `data/` | its tables; recorded inputs and float64 results |
| `Makefile` | the recorded compile lines |
| `evidence.json` | what the log says |
"""


def readme(claim: Claim) -> str:
    """What is claimed, how to repeat it, and how to call the kernel."""
    fact, workload = claim.crowned.fact, claim.workload
    return _TEXT.format(
        name=workload.name,
        summary=workload.summary,
        formula=workload.formula,
        claim=ratio_text(stated(fact.comparison)),
        rows="\n".join(map(_row, claim.shapes)),
        remark=f"{remark(claim)}\n" if remark(claim) else "",
        goal=fact.goal_id,
        candidate=fact.candidate_id,
        header=f"{workload.name}.h",
        library=library_name(claim),
        threads=claim.champion.threads,
        baselines="\n".join(f"| `{source_name(arm)}` | {_what(arm)} |" for arm in claim.arms[1:]),
    )


def _row(shape: TimedShape) -> str:
    row = shape.row
    times = f"{time_text(row.baseline_ns)} | {time_text(row.candidate_ns)}"
    return f"| {shape_text(row.axes)} | {row.baseline} | {times} |"


def _what(arm: Arm) -> str:
    raced = "the baseline that was raced" if arm.sha256 else "the strongest C baseline, beside a library that was raced"
    return f"{raced}: {arm.threads} threads, flags `{' '.join(arm.kernel.flags) or 'none'}`"
