"""What the C spaces share: tunables of a CPU, their constraints, and how a row kernel is cut into threads."""

from kernel_lab.spaces.constraint import Constraint
from kernel_lab.spaces.launch import Launch, launch_line
from kernel_lab.spaces.space import Rendered, Surroundings, Tunable
from schemas.work import Genome

KIB = 1024
TILE_FLOATS = 16 * KIB
"""Chosen: a cyclic or dynamic tile of 64 KiB costs microseconds, far above the price of handing it out."""

VECTOR_BITS = Tunable("vector_bits", (128, 256, 512), "width of the vectors that the source names")
STREAM_FROM_KIB = Tunable(
    "stream_from_kib", (0, 1 * KIB, 16 * KIB), "streaming stores from this much traffic on; 0 means never"
)
PREFETCH_BYTES = Tunable("prefetch_bytes", (0, 1 * KIB, 4 * KIB), "how far ahead the reading pass prefetches; 0: not")
THREADS = Tunable("threads", ("one", "half", "all"), "how much of the thread quota a call may use")
PARALLEL_FROM_KIB = Tunable("parallel_from_kib", (64, 1 * KIB), "more than one thread from this much traffic on")
SCHEDULE = Tunable("schedule", ("even", "cyclic", "dynamic"), "how rows are dealt to threads")

WIDTH_FITS = Constraint(
    ("vector_bits",),
    lambda genome, around: around.vector_bits // 2 <= int(genome["vector_bits"]) <= around.vector_bits,
    "vectors as wide as the machine's or half of that",
)
THREADS_FIT = Constraint(
    ("threads",),
    lambda genome, around: around.threads >= {"one": 1, "half": 4, "all": 2}[str(genome["threads"])],
    "no more threads than the quota, and `half` only where it differs from one and all",
)


def idle_when_serial(tunable: Tunable) -> Constraint:
    """With one thread `tunable` means nothing, so it keeps its first value."""
    return Constraint(
        ("threads", tunable.name),
        lambda genome, _around: genome["threads"] != "one" or genome[tunable.name] == tunable.values[0],
        f"{tunable.name} matters only with several threads",
    )


def nothing_forbidden(*flags_when: tuple[str, str, object]) -> Constraint:
    """`(flag, tunable, value)`: a goal that forbids `flag` never gets `value`."""
    return Constraint(
        tuple(name for _, name, _ in flags_when),
        lambda genome, around: not any(flag in around.forbid and genome[name] == v for flag, name, v in flags_when),
        "flags that the goal forbids are not used",
    )


def thread_count(genome: Genome, around: Surroundings) -> int:
    """The gene `threads` as a number here."""
    return {"one": 1, "half": around.threads // 2, "all": around.threads}[str(genome["threads"])]


def rendered(genome: Genome, around: Surroundings, body: str, flags: tuple[str, ...] = ()) -> Rendered:
    """`body` under its launch data."""
    threads = thread_count(genome, around)
    return Rendered(f"{launch_line(Launch(flags, threads))}\n{body}", flags, threads)


def repeated(count: int, line: str, joint: str = "\n") -> str:
    """`line` for k = 0 … count − 1, with `$k` and `$+k` (the offset of vector k) filled in."""
    return joint.join(line.replace("$+k", f" + {k} * LANES" if k else "").replace("$k", str(k)) for k in range(count))


def prefetches(genome: Genome, pointer: str, vectors: int) -> str:
    """One prefetch per 64-byte line that an iteration over `vectors` vectors reads; empty when switched off."""
    distance = int(genome["prefetch_bytes"])
    if not distance:
        return ""
    lines = max(vectors * int(genome["vector_bits"]) // 512, 1)
    ahead = (
        f"        __builtin_prefetch((const char *)({pointer}) + {distance + 64 * line});" for line in range(lines)
    )
    return "\n".join(ahead) + "\n"


def row_dispatch(genome: Genome, rows: str, width: str, call: str, traffic: str) -> str:
    """The body of an entry whose `rows` rows are independent: `call` takes `first`, `past`, and `streaming` where that
    is a tunable.

    Streaming and threads are switched on by the size of the call, and every thread drains its own stores. A call may
    be large and have no rows: a tile still has one.
    """
    stream_from, threaded = int(genome.get("stream_from_kib", 0)) * KIB, genome["threads"] != "one"
    head = f"    const int64_t bytes = {traffic};\n" if stream_from or threaded else ""
    if STREAM_FROM_KIB.name in genome:
        head += f"    const int streaming = {f'bytes >= {stream_from}' if stream_from else '0'};\n"
    drain = "if (streaming) drain();" if stream_from else ""
    serial = f"    {call.replace('$first', '0').replace('$past', rows)};\n" + (f"    {drain}\n" if drain else "")
    if not threaded:
        return head + serial
    drained = f"            {drain}\n" if drain else ""
    inner = call.replace("$first", "i").replace("$past", f"i + tile < {rows} ? i + tile : {rows}")
    kind = "dynamic, 1" if genome["schedule"] == "dynamic" else "static, 1"
    tile = f"{TILE_FLOATS} / ({width} + 1) + 1"
    if genome["schedule"] == "even":
        tile = f"({rows} + omp_get_max_threads() - 1) / omp_get_max_threads() + ({rows} == 0)"
    return f"""{head}    if (bytes >= {int(genome["parallel_from_kib"]) * KIB}) {{
        const int64_t tile = {tile};
#pragma omp parallel
        {{
#pragma omp for schedule({kind}) nowait
            for (int64_t i = 0; i < {rows}; i += tile)
                {inner};
{drained}        }}
        return;
    }}
{serial}"""
