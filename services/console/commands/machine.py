"""`assay machine`: what this machine is, and how quiet it is."""

import typer

app = typer.Typer(no_args_is_help=True, help="What this machine is, and how quiet it is.")
