"""How candidates are thought up. One module and one table line per strategy."""

from collections.abc import Mapping
from types import MappingProxyType

from services.proposer.strategies import enumeration, genetic, latin_hypercube, polish
from services.proposer.strategies.strategy import Strategy

STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "enumerate": enumeration.propose,
        "latin_hypercube": latin_hypercube.propose,
        genetic.NAME: genetic.propose,
        "polish": polish.propose,
    }
)
"""By the name that a goal's `search.strategies` uses."""
