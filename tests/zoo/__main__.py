"""`make zoo` and `make zoo-mutants`. Ends with 1 when an inmate gets what it must not, or nobody needs a check."""

import argparse
import sys
from collections.abc import Iterable, Sequence
from statistics import median

from kernel_lab.machine import machine_class
from kernel_lab.verify.court import Court, open_court
from kernel_lab.verify.subject import Depth
from schemas.faults import Misconfigured
from tests.zoo.inmates import Inmate, inmates, told
from tests.zoo.judging import Judged, every_check, judge_all, launch_ms, without

MODES = ("bwrap", "landlock", "none")


def main() -> int:
    """0 when every inmate got what it must get and every check was needed."""
    asked = argparse.ArgumentParser(prog="python -m tests.zoo", description=__doc__)
    asked.add_argument("--isolation", default="auto", choices=("auto", "all", *MODES))
    asked.add_argument("--mutants", action="store_true", help="switch each check off instead")
    asked.add_argument("names", nargs="*", help="inmates, all unless given")
    given = asked.parse_args()
    bad, good = _chosen("bad", given.names), _chosen("good", given.names)
    if not bad + good:
        print(f"no such inmate: {', '.join(given.names)}", file=sys.stderr)
        return 2
    surprises = 0
    for court in _courts(given.isolation):
        surprises += _mutants(bad, court) if given.mutants else _zoo(bad, good, court)
    return 1 if surprises else 0


def _chosen(kind: str, names: Sequence[str]) -> tuple[Inmate, ...]:
    return tuple(inmate for inmate in inmates(kind) if not names or inmate.name in names)


def _courts(isolation: str) -> list[Court]:
    """Those asked for; of `all`, those that work here, and why the others do not."""
    if isolation != "all":
        return [open_court(isolation)]
    courts = []
    for mode in MODES:
        try:
            courts.append(open_court(mode))
        except Misconfigured as refusal:
            print(f"{mode}: left out: {refusal}")
    return courts


def _zoo(bad: Sequence[Inmate], good: Sequence[Inmate], court: Court) -> int:
    machine = machine_class()
    print(f"\nisolation {court.isolation}: {len(bad)} bad and {len(good)} good inmates")
    print("    one mark per rung V0 to V7: . passed, X failed, ? could not run\n")
    killed = _told(judge_all(bad, court, machine))
    cheap = _told(judge_all(good, court, machine, Depth.CHEAP), quiet=True)
    deep = _told(judge_all(good, court, machine, Depth.DEEP))
    _summary(court, killed, cheap, deep)
    return sum(not judged.as_expected for judged in (*killed, *cheap, *deep))


def _told(judging: Iterable[Judged], *, quiet: bool = False) -> list[Judged]:
    told_so_far = []
    for judged in judging:
        told_so_far.append(judged)
        if not quiet or not judged.as_expected:
            print(judged.line(), flush=True)
    return told_so_far


def _summary(court: Court, killed: list[Judged], cheap: list[Judged], deep: list[Judged]) -> None:
    right = sum(judged.as_expected for judged in killed)
    dead = sum(told(judged.judgement) not in ("verified", "no_verdict") for judged in killed)
    refused = {judged.inmate.name for judged in (*cheap, *deep) if not judged.as_expected}
    print(f"\nisolation {court.isolation}")
    if killed:
        of = f"{dead} of {len(killed)}; {right} at their rung and for their reason"
        print(f"  kill rate            {dead / len(killed):.1%}  ({of})")
    if cheap:
        print(f"  false rejects        {len(refused) / len(cheap):.1%}  ({len(refused)} of {len(cheap)})")
        print(f"  cheap rungs          {median(j.elapsed_ms for j in cheap) / 1e3:.2f} s in the median")
        slowest = max(deep, key=lambda judged: judged.elapsed_ms)
        print(
            f"  all rungs            {median(j.elapsed_ms for j in deep) / 1e3:.1f} s in the median, at most", end=" "
        )
        print(f"{slowest.elapsed_ms / 1e3:.1f} s ({slowest.inmate.name})")
    print(f"  launch of a sandbox  {launch_ms(court.lab.sandbox):.1f} ms in the median", flush=True)


def _mutants(bad: Sequence[Inmate], court: Court) -> int:
    """How many checks nobody needs."""
    machine, idle = machine_class(), 0
    print(f"\nisolation {court.isolation}: each check switched off\n")
    for check in every_check():
        needed = []
        for inmate in (inmate for inmate in bad if check in inmate.guards):
            got = told(without(check, inmate, court, machine))
            if got != inmate.expect:
                needed.append(f"{inmate.name}: {got}, not {inmate.expect}")
        idle += not needed
        said = "; ".join(needed) or "nobody gets another verdict"
        print(f"{'ok' if needed else 'NO':<3}{check:<20} {said}", flush=True)
    print(f"\n{len(every_check()) - idle} of {len(every_check())} checks are needed by some inmate")
    return idle


if __name__ == "__main__":
    sys.exit(main())
