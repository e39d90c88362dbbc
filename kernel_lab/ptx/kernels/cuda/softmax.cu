// assay: {"grid": ["R", 1, 1], "block": [256, 1, 1]}
// y[r,c] = exp(x − max) / Σ exp(x − max). One CTA a row; both reductions go through the same eight words.
#define WARPS 8
#define LOWEST __int_as_float(0xff800000)  // minus infinity

__device__ __forceinline__ float warp_max(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
  }
  return value;
}

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

extern "C" __global__ void softmax(const float *x, float *y, int64_t R, int64_t C) {
  __shared__ float partial[WARPS];
  const float *row = x + (int64_t)blockIdx.x * C;
  float *out = y + (int64_t)blockIdx.x * C;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  float top = LOWEST;
  for (int64_t c = threadIdx.x; c < C; c += blockDim.x) {
    top = fmaxf(top, row[c]);
  }
  top = warp_max(top);
  if (lane == 0) {
    partial[warp] = top;
  }
  __syncthreads();  // the maxima are there
  top = partial[0];
  for (int other = 1; other < WARPS; ++other) {
    top = fmaxf(top, partial[other]);
  }
  __syncthreads();  // and were read by all

  float total = 0.0f;
  for (int64_t c = threadIdx.x; c < C; c += blockDim.x) {
    total += __expf(row[c] - top);
  }
  total = warp_sum(total);
  if (lane == 0) {
    partial[warp] = total;
  }
  __syncthreads();  // the sums are there
  total = partial[0];
  for (int other = 1; other < WARPS; ++other) {
    total += partial[other];
  }
  for (int64_t c = threadIdx.x; c < C; c += blockDim.x) {
    out[c] = __expf(row[c] - top) / total;
  }
}
