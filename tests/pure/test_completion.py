"""Tab in a shell completes commands and the names of templates."""

import pytest
from typer.testing import CliRunner

from services.console.main import application

app = application()


def completed(words: str) -> list[str]:
    """What bash is told when Tab is pressed at the end of `words`."""
    environment = {"_ASSAY_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = CliRunner().invoke(app, [], prog_name="assay", env=environment)
    assert done.exit_code == 0
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("assay candidate sub", "submit"),
        ("assay goal ste", "steer"),
        ("assay goal submit --dry", "--dry-run"),
        ("assay goal submit --template rms_norm_s", "rms_norm_serving_cpu"),
    ],
)
def test_tab_completes_commands_options_and_templates(words: str, offered: str) -> None:
    assert offered in completed(words)
