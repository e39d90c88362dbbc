"""Sources of kda_decode_inplace."""
