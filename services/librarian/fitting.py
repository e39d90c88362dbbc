"""Which kernels one fact carries beside its task: a fact has 512 KiB, a submitted source up to 256. Pure.

Sources of design spaces have a few KiB, and all of them fit. Sizes are taken as JSON, which is what travels.
"""

from schemas.envelope import MAX_FACT_BYTES
from schemas.work import Contestant, Task

BASELINES_BYTES = 192 * 1024
"""What one champion may add to the baselines of every later task. Chosen: leaves a submission its 256 KiB."""
ROOM_BYTES = 32 * 1024
"""For the rest of a race.due: ids and the envelope."""


def as_baseline(champion: Contestant | None, task: Task) -> Contestant | None:
    """`champion`, unless its source would be too much in later tasks, which hold the strongest baseline of each shape.

    Then it is not raced as a baseline, and remains the incumbent whom the winner must not be slower than.
    """
    if champion is None or len(champion.build.model_dump_json().encode()) * len(task.shapes) > BASELINES_BYTES:
        return None
    return champion


def that_fit(
    contestants: tuple[Contestant, ...], incumbent: Contestant | None, task: Task
) -> tuple[tuple[Contestant, ...], Contestant | None]:
    """The contestants and the incumbent whose sources fit one race.due: the best proven one always, the incumbent
    before the others. Two sources near the limit are more than a fact holds."""
    left = MAX_FACT_BYTES - ROOM_BYTES - len(task.model_dump_json().encode())
    fitting: list[Contestant] = []
    raced: Contestant | None = None
    for one in (contestants[0], incumbent, *contestants[1:]):
        size = len(one.model_dump_json().encode()) if one else 0
        if one is None or (fitting and size > left):
            continue
        left -= size
        if one is incumbent:
            raced = one
        else:
            fitting.append(one)
    return tuple(fitting), raced
