"""What this installation offers to goals, composed from its settings: the desk judges by nothing else."""

from kernel_lab.spaces.installed import load_spaces, tunables_of
from kernel_lab.workloads import WORKLOADS
from services.librarian.goal_checks import Catalogue


def compose_catalogue(extra_spaces: tuple[str, ...], strategies: tuple[str, ...]) -> Catalogue:
    """Workloads of the table, strategies that are offered, tunables of every space. Raises Misconfigured."""
    spaces = load_spaces(extra_spaces)
    return Catalogue(WORKLOADS, frozenset(strategies), {key: tunables_of(space) for key, space in spaces.items()})
