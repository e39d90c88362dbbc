// assay: {"grid": ["ceildiv(N, 1024)", 1, 1], "block": [256, 1, 1], "shared_bytes": "4*BINS"}
// counts[b] += how often b occurs in x. Each CTA counts in its own shared memory, then adds its counts to all.
extern "C" __global__ void histogram(const int *x, unsigned int *counts, int64_t N, int64_t BINS) {
  extern __shared__ unsigned int mine[];
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    mine[bin] = 0;
  }
  __syncthreads();
  int64_t start = (int64_t)blockIdx.x * 1024;
  for (int64_t n = start + threadIdx.x; n < min(start + 1024, N); n += blockDim.x) {
    atomicAdd(&mine[x[n]], 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < BINS; bin += blockDim.x) {
    atomicAdd(&counts[bin], mine[bin]);
  }
}
