"""`python -m services.compiler`: one copy of the compiler, until SIGTERM."""

from services.compiler.core import Compiler
from services.compiler.work import served_routes
from services.runtime.host import run_service

if __name__ == "__main__":
    run_service(Compiler(), effect="services.compiler.work:open_effect", routes=served_routes)
