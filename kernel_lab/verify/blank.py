"""What a toolchain makes of an empty kernel: everything beyond it in a candidate's object is the candidate's own."""

from kernel_lab.backends.backend import Backend, Built, NotBuilt
from kernel_lab.workloads.workload import Workload
from schemas.enums import Language
from schemas.faults import Misconfigured
from schemas.work import Kernel, MachineClass


def blank_object(backend: Backend, workload: Workload, machine: MachineClass) -> bytes:
    """The object of an empty kernel with the entry of `workload`. Raises Misconfigured when not even that builds."""
    source = f"#include <stdint.h>\n{workload.signature()} {{}}\n"
    kernel = Kernel(language=Language.C, source=source, fingerprint="blank")
    built = backend.compile(kernel, workload.name, machine)
    match built:
        case Built():
            return built.object
        case NotBuilt():
            raise Misconfigured(f"the compiler cannot build an empty kernel: {built.message}\n{built.diagnostics}")
