"""Figures of this factory on this machine, measured side by side, raw samples kept. See `python -m benchmarks`."""
