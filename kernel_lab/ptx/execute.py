"""Running one launch: bind it to the kernel, interpret it, and report what the checkers saw."""

import numpy as np

from kernel_lab.ptx.bind import Bound, bind
from kernel_lab.ptx.findings import Findings, Site
from kernel_lab.ptx.launch import ALL, Checks, Launch
from kernel_lab.ptx.machine import Machine, OutOfSteps, Stuck
from kernel_lab.ptx.memory.arena import Region
from kernel_lab.ptx.memory.globals import GlobalMemory
from kernel_lab.ptx.memory.local import LocalMemory
from kernel_lab.ptx.memory.shared import SharedMemory
from kernel_lab.ptx.order import CLOCK_ELEMENTS, Order
from kernel_lab.ptx.program import Program
from kernel_lab.ptx.registers import Registers, Wave
from kernel_lab.ptx.report import Kind, Report, Verdict
from kernel_lab.ptx.stats import stats_of
from kernel_lab.ptx.syntax.parser import parse
from kernel_lab.ptx.syntax.tree import Function, Instruction, Module

MOST_LANES = 1 << 15
"""Chosen: lanes of one wave. More amortise no more overhead and leave the cache."""
MOST_WAVE_BYTES = 1 << 24
"""Chosen: twice the shared or local memory of one wave. Shadows take 6 to 24 times as much."""
NO_VERDICT = frozenset({Kind.UNPROVEN_HANDOFF, Kind.UNSUPPORTED})


def run(module: Module | str, launch: Launch, *, checks: Checks = ALL, stats: bool = False) -> Report:
    """The verdict on one launch of one kernel, with every checker of `checks` looking on.

    Raises PtxSyntaxError for text that does not parse and LaunchRefused for a launch that does not fit.
    """
    parsed = parse(module) if isinstance(module, str) else module
    bound = bind(parsed, launch, checks)
    padded = -(-int(np.prod(launch.block)) // 32) * 32
    findings = Findings(padded)
    order = Order(padded, uses_clocks=needs_clocks(bound.function))
    machine = _machine(bound, parsed, checks, order, findings, stats=stats)
    timed_out = False
    if not machine.is_unsupported:
        with np.errstate(all="ignore"):
            timed_out = _run_waves(machine, bound, padded)
    if checks.output_coverage and not timed_out and not machine.is_unsupported:
        _check_coverage(machine, bound)
    verdict = _verdict(findings, timed_out=timed_out, unsupported=machine.is_unsupported)
    outputs = {buffer.name: _content(machine, region, buffer.array) for buffer, region in bound.outputs}
    return Report(verdict, findings.diagnostics(), outputs, stats_of(machine) if stats else None)


def needs_clocks(function: Function) -> bool:
    """Whether a kernel synchronises some of a CTA's threads: then every thread needs a row of a vector clock."""
    return any(_is_partial_sync(item) for item in function.body if isinstance(item, Instruction))


def _is_partial_sync(instruction: Instruction) -> bool:
    if instruction.opcode == "mbarrier":
        return True
    if instruction.opcode not in ("bar", "barrier"):
        return False
    if "warp" in instruction.modifiers:
        mask = instruction.operands[0]
        return getattr(mask, "value", None) not in (-1, 0xFFFFFFFF)
    return len(instruction.operands) > (1 if "red" not in instruction.modifiers else 3)


def _machine(bound: Bound, module: Module, checks: Checks, order: Order, findings: Findings, *, stats: bool) -> Machine:
    launch = bound.launch
    memory = GlobalMemory(bound.arena, bound.global_granule, order, findings, checks)
    for region, content in bound.contents:
        memory.fill(region, content)
    ctas = min(_wave_ctas(bound, order), int(np.prod(launch.grid)))
    shared = SharedMemory(bound.shared, ctas, bound.shared_granule, order, findings, checks)
    local = LocalMemory(bound.local, ctas * order.padded, bound.local_granule, findings, checks)
    registers = Registers(bound.function, bound.addresses, launch)
    machine = Machine(launch, checks, registers, order, findings, memory, shared, local, counts=stats)
    machine.program = Program(bound.function, machine, module.files)
    return machine


def _wave_ctas(bound: Bound, order: Order) -> int:
    """How many CTAs run together."""
    limits = [MOST_LANES // order.padded, MOST_WAVE_BYTES // (2 * bound.shared.size)]
    limits.append(MOST_WAVE_BYTES // (2 * bound.local.size * order.padded))
    if order.uses_clocks:
        limits.append(CLOCK_ELEMENTS // order.padded**2)
    return max(min(limits), 1)


def _run_waves(machine: Machine, bound: Bound, padded: int) -> bool:
    """Whether the step budget ran out."""
    total, together = int(np.prod(machine.launch.grid)), machine.shared.ctas
    try:
        for first in range(0, total, together):
            machine.run_wave(
                Wave(
                    machine.launch, first, min(together, total - first), padded, machine.shared.stride,
                    machine.launch.shared_bytes, bound.total_shared_bytes,
                )
            )  # fmt: skip
    except OutOfSteps as end:
        site = end.block.codes[0].site if end.block.codes else Site(0, None, "")
        machine.findings.add(Kind.STEP_BUDGET, site, end.group.threads, str(end))
        return True
    except Stuck:
        return False
    return False


def _check_coverage(machine: Machine, bound: Bound) -> None:
    """Every byte of every `out` buffer was written."""
    memory = machine.memory
    for buffer, region in bound.outputs:
        if buffer.role != "out":
            continue
        granule = memory.shadow.granule
        marks = memory.shadow.written[region.start // granule : -(-region.stop // granule)]
        blank = np.flatnonzero(marks == memory.uninitialised)
        if blank.size:
            offset = int(blank[0]) * granule
            missing = f"{blank.size * granule} of {buffer.array.nbytes} bytes"
            message = f"{missing} were never written, the first at offset {offset}"
            site = Site(bound.function.line, None, bound.function.name)
            nobody = np.zeros(0, np.int64)
            machine.findings.add(
                Kind.UNCOVERED_OUTPUT, site, nobody, message, np.array([region.start + offset]), memory.owner
            )


def _verdict(findings: Findings, *, timed_out: bool, unsupported: bool) -> Verdict:
    kinds = {diagnostic.kind for diagnostic in findings.diagnostics()}
    if unsupported:
        return Verdict.UNSUPPORTED
    if kinds - NO_VERDICT - {Kind.STEP_BUDGET}:
        return Verdict.FAIL
    if timed_out:
        return Verdict.TIMEOUT
    return Verdict.UNSUPPORTED if kinds else Verdict.PASS


def _content(machine: Machine, region: Region, like: np.ndarray) -> np.ndarray:
    start, stop = region.start, region.stop
    return machine.memory.bytes[start:stop].copy().view(like.dtype).reshape(like.shape)
