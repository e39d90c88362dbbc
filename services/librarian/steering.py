"""What can be wrong with a steer: that it would change nothing, or something that nobody may want. Pure."""

from collections.abc import Callable, Iterator, Mapping

from schemas.enums import SteerAction
from schemas.goal import Budget, Goal
from schemas.requests import Problem, SteerGoal
from schemas.steering import Ban, extended
from schemas.work import Gene
from services.evidence.goal_parts import GoalPhase
from services.evidence.goal_state import GoalState
from services.librarian.curator import CuratorState
from services.librarian.goal_checks import Catalogue, Tunables, among, check_values, tunables_of
from services.librarian.problems import problems_in
from services.librarian.submissions import search_is_over

OF_THE_SEARCH = (SteerAction.EXTEND, SteerAction.HINT, SteerAction.PIN, SteerAction.BAN)
"""Actions that work on the search only."""
WITH_DETAIL = (*OF_THE_SEARCH, SteerAction.CONFIRM)
"""Actions that need the field of their name."""


def check_steer(steer: SteerGoal, goal: GoalState, state: CuratorState, catalogue: Catalogue) -> list[Problem]:
    """Everything that keeps `steer` from having its effect on `goal`."""
    problems = list(_details(steer))
    objection = _objection(goal, steer.action, search_is_over(goal, state))
    if objection:
        return [*problems, Problem(path="$.action", message=objection)]
    check = _CHECKS.get(steer.action)
    return problems if problems or check is None else list(check(steer, goal, tunables_of(goal.goal, catalogue)))


def _details(steer: SteerGoal) -> Iterator[Problem]:
    """The field of the action is there, and no other action's."""
    for action in WITH_DETAIL:
        given = getattr(steer, action) is not None
        if given and action is not steer.action:
            yield Problem(path=f"$.{action}", message=f"belongs to action {action}, not to {steer.action}")
        if action is steer.action and not given:
            yield Problem(path=f"$.{action}", message=f"is required for action {action}")


def _objection(goal: GoalState, action: SteerAction, search_over: bool) -> str | None:
    """Why `action` would change nothing."""
    if goal.cancelled:
        return "the goal is being cancelled"
    match action:
        case SteerAction.PAUSE if goal.paused_since is not None:
            return "the goal is paused already"
        case SteerAction.RESUME if goal.paused_since is None:
            return "the goal is not paused"
        case SteerAction.STOP if goal.stopped:
            return "the goal is stopping already"
        case SteerAction.STOP if goal.phase in (GoalPhase.FINALS, GoalPhase.RACING):
            return "the search is over and the finals run; cancel ends them without a champion"
        case SteerAction.EXTEND | SteerAction.HINT | SteerAction.BAN if goal.stopped:
            return "the goal is stopping: nothing more is proposed"
        case SteerAction.CONFIRM if not goal.quarantined:
            return "no result of this goal waits for a confirmation"
        case _ if action in OF_THE_SEARCH and search_over:
            return "the search is over and the finals run: what they race is settled"
        case _:
            return None


def _extension(steer: SteerGoal, goal: GoalState, _known: Tunables) -> Iterator[Problem]:
    assert steer.extend is not None
    if not (steer.extend.candidates or steer.extend.wall or steer.extend.stagnation):
        yield Problem(path="$.extend", message="adds nothing", hint="give candidates, wall or stagnation")
    larger = extended(goal.goal, steer.extend).budget
    for problem in problems_in(Budget, larger.model_dump()):
        yield problem.model_copy(
            update={"path": f"$.extend{problem.path.removeprefix('$')}", "message": f"in all: {problem.message}"}
        )


def _hint(steer: SteerGoal, goal: GoalState, known: Tunables) -> Iterator[Problem]:
    assert steer.hint is not None
    if not (steer.hint.text.strip() or steer.hint.include):
        yield Problem(path="$.hint", message="says nothing", hint="give text, or a region in include")
    yield from check_values(("hint", "include"), steer.hint.include, goal.goal, known)


def _pin(steer: SteerGoal, goal: GoalState, _known: Tunables) -> Iterator[Problem]:
    assert steer.pin is not None
    fingerprint, most = goal.fingerprint_of(steer.pin), goal.goal.finals.finalists
    if steer.pin in goal.pins:
        yield Problem(path="$.pin", message="this candidate is pinned already")
    elif fingerprint is None:
        yield Problem(
            path="$.pin",
            message=f"goal {goal.goal_id} has no candidate {steer.pin}",
            hint=f"`assay candidate list --goal {goal.goal_id}`",
        )
    elif not goal.was_measured(steer.pin):
        yield Problem(path="$.pin", message="only a candidate with a measured ratio can be a finalist")
    if any(ban.fingerprint == fingerprint for ban in goal.bans if ban.fingerprint):
        yield Problem(path="$.pin", message="this candidate's kernel is banned in this goal")
    if len(goal.pins) >= most:
        yield Problem(path="$.pin", message=f"the goal has {most} finalists, and as many are pinned")


def _ban(steer: SteerGoal, goal: GoalState, known: Tunables) -> Iterator[Problem]:
    assert steer.ban is not None
    ban = steer.ban
    if ban in goal.bans:
        yield Problem(path="$.ban", message=f"{ban} is banned already")
    elif ban.fingerprint is not None:
        pinned = next((id_ for id_ in goal.pins if goal.fingerprint_of(id_) == ban.fingerprint), None)
        if pinned is not None:
            yield Problem(
                path="$.ban.fingerprint", message=f"candidate {pinned} with this kernel is pinned as a finalist"
            )
    elif ban.tunable is not None and ban.value is not None:
        yield from _banned_value(ban.tunable, ban.value, goal, known)


def _confirmation(steer: SteerGoal, goal: GoalState, _known: Tunables) -> Iterator[Problem]:
    if steer.confirm not in goal.quarantined:
        waiting = ", ".join(map(str, goal.quarantined))
        yield Problem(
            path="$.confirm", message=f"the result of {steer.confirm} is not quarantined; these are: {waiting}"
        )


def _banned_value(name: str, value: Gene, goal: GoalState, known: Tunables) -> Iterator[Problem]:
    wrong = list(check_values(("ban",), {name: (value,)}, goal.goal, known))
    if wrong:
        path = "$.ban.value" if name in known else "$.ban.tunable"
        yield from (problem.model_copy(update={"path": path}) for problem in wrong)
    elif name in known and all(among(one, (value,)) for one in _left(name, goal.goal, goal.bans, known)):
        yield Problem(path="$.ban", message=f"would leave no value of {name}: nothing could be proposed")


def _left(name: str, goal: Goal, bans: tuple[Ban, ...], known: Tunables) -> tuple[Gene, ...]:
    """Values of a tunable that limits and bans leave."""
    space = goal.search.space
    banned = [ban.value for ban in bans if ban.tunable == name and ban.value is not None]
    return tuple(
        value
        for value in space.include.get(name, known[name])
        if not among(value, space.exclude.get(name, ())) and not among(value, banned)
    )


_CHECKS: Mapping[SteerAction, Callable[[SteerGoal, GoalState, Tunables], Iterator[Problem]]] = {
    SteerAction.EXTEND: _extension,
    SteerAction.HINT: _hint,
    SteerAction.PIN: _pin,
    SteerAction.BAN: _ban,
    SteerAction.CONFIRM: _confirmation,
}
