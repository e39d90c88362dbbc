"""Our own GPU kernels: CUDA sources, their PTX for three architectures, and the mutants that the checkers must catch.

`catalogue` lists the kernels with inputs, float64 references and bounds; `mutants` lists the broken ones; `golden`
reads the PTX in this package; `build` makes it again with NVRTC.
"""
