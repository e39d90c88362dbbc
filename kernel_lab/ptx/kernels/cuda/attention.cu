// assay: {"grid": ["ceildiv(T, 32)", "H", 1], "block": [256, 1, 1]}
// Causal attention over q, k, v, o [H,T,64] with the softmax online (arXiv 1805.02867): o = softmax(scale·q kᵀ) v.
// Eight lanes share a query, each with 8 of its 64 channels; keys and values pass through shared memory, 32 at a time.
#define D 64
#define TILE 32
#define STEP 8
#define PART 8
#define LOWEST __int_as_float(0xff800000)  // minus infinity

extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *o, int64_t H, int64_t T,
                                     float scale) {
  __shared__ __align__(16) float keys[TILE][D];
  __shared__ __align__(16) float values[TILE][D];
  int64_t head = (int64_t)blockIdx.y * T * D;
  int64_t first = (int64_t)blockIdx.x * TILE;
  int64_t query = first + threadIdx.x / 8;
  int part = threadIdx.x % 8 * PART;

  float mine[PART], sum[PART];
  for (int c = 0; c < PART; ++c) {
    mine[c] = query < T ? q[head + query * D + part + c] * scale : 0.0f;
    sum[c] = 0.0f;
  }
  float top = LOWEST, weight = 0.0f;

  int64_t end = min(first + TILE, T);
  for (int64_t start = 0; start < end; start += TILE) {
    for (int at = threadIdx.x; at < TILE * D; at += blockDim.x) {
      bool there = start + at / D < T;
      keys[at / D][at % D] = there ? k[head + start * D + at] : 0.0f;
      values[at / D][at % D] = there ? v[head + start * D + at] : 0.0f;
    }
    __syncthreads();
    for (int step = 0; step < TILE; step += STEP) {
      float score[STEP], new_top = top;
      for (int j = 0; j < STEP; ++j) {
        float dot = 0.0f;
        for (int c = 0; c < PART; ++c) {
          dot += mine[c] * keys[step + j][part + c];
        }
        dot += __shfl_xor_sync(0xffffffffu, dot, 1);
        dot += __shfl_xor_sync(0xffffffffu, dot, 2);
        dot += __shfl_xor_sync(0xffffffffu, dot, 4);
        score[j] = start + step + j <= query ? dot : LOWEST;
        new_top = fmaxf(new_top, score[j]);
      }
      float shrink = __expf(top - new_top);  // the first step always has key 0, so new_top is finite
      weight *= shrink;
      for (int c = 0; c < PART; ++c) {
        sum[c] *= shrink;
      }
      for (int j = 0; j < STEP; ++j) {
        float power = __expf(score[j] - new_top);
        weight += power;
        for (int c = 0; c < PART; ++c) {
          sum[c] += power * values[step + j][part + c];
        }
      }
      top = new_top;
    }
    __syncthreads();
  }
  if (query < T) {
    for (int c = 0; c < PART; ++c) {
      o[head + query * D + part + c] = sum[c] / weight;
    }
  }
}
