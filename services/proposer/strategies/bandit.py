"""Which operator to use next: the area-under-curve bandit of OpenTuner (Ansel et al., PACT 2014, section 3.2)."""

import math
from collections.abc import Sequence

from services.evidence.search_history import Credit

EXPLORATION = 0.05
"""OpenTuner's default: exploration decides between operators that improve about equally often."""


class Bandit:
    """Chooses among operators by how much, and how lately, each improved its island."""

    def __init__(self, operators: Sequence[str], credit: Sequence[Credit]) -> None:
        self._operators = tuple(operators)
        self._pulls = dict.fromkeys(operators, 0)
        self._area = dict.fromkeys(operators, 0.0)
        for pull in credit:
            if pull.strategy in self._pulls:
                self._pull(pull.strategy, pull.improved)

    def choose(self) -> str:
        """The operator with the best score; counted as a pull without reward until the log says otherwise.

        Counting it at once is what spreads one generation over several operators.
        """
        operator = max(self._operators, key=self._score)
        self._pull(operator, improved=False)
        return operator

    def _pull(self, operator: str, improved: bool) -> None:
        self._pulls[operator] += 1
        self._area[operator] += self._pulls[operator] if improved else 0.0

    def _score(self, operator: str) -> float:
        pulls = self._pulls[operator]
        if pulls == 0:
            return math.inf
        area = self._area[operator] * 2 / (pulls * (pulls + 1))
        return area + EXPLORATION * math.sqrt(2 * math.log(max(2, sum(self._pulls.values()))) / pulls)
