// assay: {"grid": ["ceildiv(N, 256)", 1, 1], "block": [256, 1, 1]}
// y[n] = a[n] + b[n].
extern "C" __global__ void vector_add(const float *a, const float *b, float *y, int64_t N) {
  int64_t n = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (n < N) {
    y[n] = a[n] + b[n];
  }
}
