"""The physics: workloads, compilation, verification and measurement. Usable from a notebook, no bus, no database."""
