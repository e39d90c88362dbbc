"""Design spaces of rms_norm, a file per language."""
