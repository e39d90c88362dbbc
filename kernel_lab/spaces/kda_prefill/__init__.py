"""Sources of kda_prefill."""
