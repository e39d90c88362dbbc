"""History again: decisions recomputed, facts re-emitted. Nothing here starts an effect or states a fact."""
