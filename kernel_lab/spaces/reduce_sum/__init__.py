"""Design spaces of reduce_sum, a file per language."""
