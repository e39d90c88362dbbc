// assay: {"grid": [1, 1, 1], "block": [256, 1, 1]}
// y = Σ x[n]. One CTA; a tree in shared memory whose last five levels are one warp's.
extern "C" __global__ void reduce_sum(const float *x, float *y, int64_t N) {
  __shared__ float partial[256];
  int thread = threadIdx.x;
  float sum = 0.0f;
  for (int64_t n = thread; n < N; n += blockDim.x) {
    sum += x[n];
  }
  partial[thread] = sum;
  __syncthreads();
  for (int stride = 128; stride >= 32; stride /= 2) {
    if (thread < stride) {
      partial[thread] += partial[thread + stride];
    }
    __syncthreads();
  }
  if (thread < 32) {
    for (int stride = 16; stride > 0; stride /= 2) {
      float other = partial[thread + stride];
      __syncwarp();  // read before a neighbour overwrites it
      partial[thread] += other;
      __syncwarp();  // written before a neighbour reads it
    }
    if (thread == 0) {
      *y = partial[0];
    }
  }
}
