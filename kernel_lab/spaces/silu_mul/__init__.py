"""Design spaces of softmax, a file per language."""
