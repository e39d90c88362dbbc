"""The PTX executor: runs and checks GPU kernels with no GPU (docs/ptx-executor.md). Use `kernel_lab.ptx.api`."""
