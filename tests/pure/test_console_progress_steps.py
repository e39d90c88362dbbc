"""Long steps away from a terminal: a line for each step, and never a long silence."""

from services.console.output import LINE_EVERY_S, PlainSteps


def test_each_step_is_said_once_and_a_long_one_again_now_and_then() -> None:
    said: list[str] = []
    now = 0.0
    steps = PlainSteps(said.append, lambda: now)
    for done in range(4):
        steps("A/A pairs", done, 30)
    now = LINE_EVERY_S
    steps("A/A pairs", 4, 30)
    steps("verifying", 0, 0)
    assert said == ["A/A pairs 0/30", "A/A pairs 4/30", "verifying"]
