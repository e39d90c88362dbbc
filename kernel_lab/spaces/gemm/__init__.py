"""Design spaces of gemm, a file per language."""
