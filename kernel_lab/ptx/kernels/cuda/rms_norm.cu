// assay: {"grid": ["T", 1, 1], "block": [256, 1, 1]}
// y[t,h] = x · rsqrt(mean x² + eps) · w. One CTA a row: a sum by shuffles in each warp, then over the warps.
#define WARPS 8

__device__ __forceinline__ float warp_sum(float value) {
  for (int offset = 16; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

extern "C" __global__ void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps) {
  __shared__ float partial[WARPS];
  __shared__ float scale;
  const float *row = x + (int64_t)blockIdx.x * H;
  float *out = y + (int64_t)blockIdx.x * H;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

  float squares = 0.0f;
  for (int64_t h = threadIdx.x; h < H; h += blockDim.x) {
    squares += row[h] * row[h];
  }
  squares = warp_sum(squares);
  if (lane == 0) {
    partial[warp] = squares;
  }
  __syncthreads();
  if (warp == 0) {
    float total = warp_sum(lane < WARPS ? partial[lane] : 0.0f);
    if (lane == 0) {
      scale = rsqrtf(total / (float)H + eps);
    }
  }
  __syncthreads();
  for (int64_t h = threadIdx.x; h < H; h += blockDim.x) {
    out[h] = row[h] * scale * w[h];
  }
}
