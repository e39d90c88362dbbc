"""Closed sets of words. A word is added here or it does not exist."""

from enum import StrEnum


class Language(StrEnum):
    """What a candidate is written in. `null` compiles and measures to a deterministic pretence, for load tests."""

    C = "c"
    NULL = "null"


class Dtype(StrEnum):
    F32 = "f32"


class Target(StrEnum):
    """What a person may aim at. A CPU target is pinned to one machine class (the route) when work starts."""

    CPU = "cpu"
    NULL = "null"


class Regime(StrEnum):
    """Whether a call finds its data in cache (measurement.md)."""

    COLD = "cold"
    HOT = "hot"


class Stage(StrEnum):
    """Where on its path a candidate was stopped."""

    COMPILE = "compile"
    VERIFY = "verify"
    MEASURE = "measure"
    PROVE = "prove"
    RACE = "race"


class Rung(StrEnum):
    """The ladder of verification.md, cheapest first."""

    STATIC = "v0_static"
    LOAD = "v1_load"
    SMOKE = "v2_smoke"
    NUMERIC = "v3_numeric"
    METAMORPHIC = "v4_metamorphic"
    FUZZ = "v5_fuzz"
    REPEAT = "v6_repeat"
    SANITIZERS = "v7_sanitizers"
    TIMED_OUTPUTS = "v8_timed_outputs"


class RungStatus(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNSUPPORTED = "unsupported"
    TIMED_OUT = "timed_out"
    TOOL_FAILURE = "tool_failure"


class Reason(StrEnum):
    """Why a candidate was rejected."""

    NOT_TEXT = "not_text"
    TOO_LARGE = "too_large"
    FLAG_NOT_ALLOWED = "flag_not_allowed"
    BAD_LAUNCH_DATA = "bad_launch_data"
    DOES_NOT_COMPILE = "does_not_compile"
    NO_ENTRY = "no_entry"
    WRONG_SIGNATURE = "wrong_signature"
    STATEFUL = "stateful"
    FORBIDDEN_IMPORT = "forbidden_import"
    FORBIDDEN_CONSTRUCT = "forbidden_construct"
    DOES_NOT_LOAD = "does_not_load"
    FP_STATE_CHANGED = "fp_state_changed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    OUT_OF_BOUNDS = "out_of_bounds"
    WROTE_INPUT = "wrote_input"
    INCOMPLETE_OUTPUT = "incomplete_output"
    DEPENDS_ON_OUTPUT = "depends_on_output"
    NOT_EXACT = "not_exact"
    NON_FINITE = "non_finite"
    OUT_OF_BOUND = "out_of_bound"
    ERROR_CLASS = "error_class"
    COUNTEREXAMPLE = "counterexample"
    LEFT_THREADS = "left_threads"
    NOT_DETERMINISTIC = "not_deterministic"
    RELATION_BROKEN = "relation_broken"
    NOT_REPEATABLE = "not_repeatable"
    UNDEFINED_BEHAVIOUR = "undefined_behaviour"
    FORGED_CLOCK = "forged_clock"


class AbandonReason(StrEnum):
    """Why work ended with no result. Nobody's fault: never a lesson, may be tried again."""

    WORKER_LOST = "worker_lost"
    TOOL_FAILURE = "tool_failure"


class JudgedAs(StrEnum):
    """What the ladder says of a candidate."""

    VERIFIED = "verified"
    REJECTED = "rejected"
    NO_VERDICT = "no_verdict"


class Verdict(StrEnum):
    """What a comparison says (measurement.md, 6). Never forced."""

    FASTER = "FASTER"
    SLOWER = "SLOWER"
    EQUIVALENT = "EQUIVALENT"
    INCONCLUSIVE = "INCONCLUSIVE"
    INVALID = "INVALID"
    UNFIT = "UNFIT"
    QUARANTINED = "QUARANTINED"


class RatioKind(StrEnum):
    """A search ratio guides the search and is never a result; a hold-out ratio may be published."""

    SEARCH = "search"
    HOLD_OUT = "hold_out"


class SteerAction(StrEnum):
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    CANCEL = "cancel"
    EXTEND = "extend"
    HINT = "hint"
    PIN = "pin"
    BAN = "ban"
    CONFIRM = "confirm"


class EndedBy(StrEnum):
    TARGET = "target"
    BUDGET = "budget"
    STAGNATION = "stagnation"
    EXHAUSTED = "exhausted"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    CANCELLED = "cancelled"
    FAILED = "failed"


class Outcome(StrEnum):
    CHAMPION = "champion"
    NO_VERIFIED_IMPROVEMENT = "no_verified_improvement"
    INCONCLUSIVE = "inconclusive"
    NONE = "none"


class Phase(StrEnum):
    """Which clock a deadline belongs to."""

    SEARCH = "search"
    FINALS = "finals"
