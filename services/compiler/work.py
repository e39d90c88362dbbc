"""The compiler's one effect: a sandboxed compilation, and the object put where every worker finds it."""

from collections.abc import Callable, Mapping
from typing import assert_never

from kernel_lab.backends import BACKENDS, GccBackend
from kernel_lab.backends.backend import Backend, Built, NotBuilt
from kernel_lab.sandbox.confine import open_sandbox
from kernel_lab.sandbox.isolation import isolation
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.work import Artifact, Build, Kernel
from services.compiler.core import Compile, Compiled, Refused
from services.runtime.artifacts import ArtifactStore
from services.runtime.settings import Settings

Backends = Mapping[Language, Backend]


def open_effect(settings: Settings) -> Callable[[Compile], Compiled | Refused]:
    """Compile work can be performed: the artifact store is open, the sandbox is the one that the settings ask for."""
    store = ArtifactStore(settings.artifacts)
    confined = GccBackend(sandbox=open_sandbox(isolation(settings.isolation)))
    backends: Backends = {**BACKENDS, Language.C: confined}
    return lambda work: perform(work, backends, store)


def perform(work: Compile, backends: Backends, store: ArtifactStore) -> Compiled | Refused:
    """`work.kernel` compiled and stored, or why not. Raises Misconfigured without a compiler, Transient when the tool
    or the store failed."""
    backend = backends.get(work.kernel.language)
    if backend is None:
        raise Misconfigured(f"no backend compiles {work.kernel.language}; there are {', '.join(backends)}")
    outcome = backend.compile(work.kernel, work.workload, work.machine)
    match outcome:
        case Built():
            build = _build(work.kernel, outcome, store.put(outcome.object))
            return Compiled(build, outcome.compile_ms, outcome.warnings)
        case NotBuilt():
            return Refused(outcome.reason, outcome.message, outcome.diagnostics)
        case _:
            assert_never(outcome)


def _build(kernel: Kernel, built: Built, stored: Artifact) -> Build:
    return Build(kernel=kernel, object=stored, command=built.command, toolchain=built.toolchain)
