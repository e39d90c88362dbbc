"""Every single check of the ladder, each with its own switch, so that the zoo can prove each one necessary."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Checks:
    """All on, always; only `tests/zoo` switches one off, to see that some inmate then gets another verdict."""

    writable_sections: bool = True
    thread_local: bool = True
    writable_references: bool = True
    constructors: bool = True
    imports: bool = True
    instructions: bool = True
    hidden_code: bool = True
    fp_control: bool = True
    smoke_sizes: bool = True
    guard_after: bool = True
    guard_before: bool = True
    misaligned: bool = True
    written_everywhere: bool = True
    two_poisons: bool = True
    old_answer: bool = True
    input_digest: bool = True
    exact: bool = True
    left_threads: bool = True
    counterexamples: bool = True
    distributions: bool = True
    answer_to_others: bool = True
    read_only_inputs: bool = True
    finite_pattern: bool = True
    bound: bool = True
    windows: bool = True
    error_class: bool = True
    thread_counts: bool = True
    same_bits: bool = True
    relations: bool = True
    fuzz: bool = True
    repeatable: bool = True
    one_changed: bool = True
    many_calls: bool = True
    novelty: bool = True
    as_timed: bool = True
    more_threads: bool = True
    sanitizers: bool = True


ALL_CHECKS = Checks()
