"""Design spaces of transpose, a file per language."""
