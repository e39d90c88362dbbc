"""Faults are exceptions, grouped by what the shell does about them. Outcomes are values and never appear here."""


class Fault(Exception):
    """Something went wrong that is nobody's result. The message names what, where and what to do."""

    exit_status: int = 1


class Transient(Fault):
    """A dependency is away for now: wait and retry, lose nothing."""

    exit_status = 7


class Poison(Fault):
    """This one message can never be handled: park it with its reason, go on with the next."""


class Misconfigured(Fault):
    """The process cannot work as set up: refuse to start and say how to mend it."""

    exit_status = 2


class NotAllowed(Misconfigured):
    """The credentials do not permit this."""

    exit_status = 4


class Broken(Fault):
    """Evidence does not hold together: stop, and name the first break."""

    exit_status = 6


class Bug(Fault):
    """An invariant of Assay itself does not hold: crash loudly."""
