"""Sources of kda_decode."""
