"""Design spaces of gemv, a file per language."""
