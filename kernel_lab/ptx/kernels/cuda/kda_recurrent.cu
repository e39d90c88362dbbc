// assay: {"grid": ["ceildiv(V, 16)", "H", "B"], "block": [128, 1, 1]}
// Kimi Delta Attention step by step (arXiv 2510.26692), K <= 64, any V. Layouts are those of the workload kda_prefill.
// Eight lanes share a column of the state, each with 8 of its rows in registers; a dot product is three shuffles.
#define ROWS 64
#define LANES 8
#define OWN 8
#define COLUMNS 16
#define STEPS 8

__device__ __forceinline__ float over_lanes(float value) {
  for (int offset = LANES / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, offset);
  }
  return value;
}

extern "C" __global__ void kda_prefill(const float *q, const float *k, const float *v, const float *g,
                                       const float *beta, const float *s0, float *o, float *s, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t V, float scale) {
  __shared__ __align__(16) float queries[STEPS][ROWS];
  __shared__ __align__(16) float keys[STEPS][ROWS];
  __shared__ __align__(16) float decays[STEPS][ROWS];
  int64_t h = blockIdx.y, b = blockIdx.z;
  int64_t column = (int64_t)blockIdx.x * COLUMNS + threadIdx.x / LANES;
  int lane = threadIdx.x % LANES;
  int64_t state_at = (b * H + h) * K * V + column;

  float state[OWN];
  for (int i = 0; i < OWN; ++i) {
    int row = lane * OWN + i;
    state[i] = row < K && column < V ? s0[state_at + row * V] : 0.0f;
  }
  for (int64_t start = 0; start < T; start += STEPS) {
    for (int at = threadIdx.x; at < STEPS * ROWS; at += blockDim.x) {
      int step = at / ROWS, row = at % ROWS;
      bool there = start + step < T && row < K;
      int64_t from = ((b * T + start + step) * H + h) * K + row;
      queries[step][row] = there ? q[from] * scale : 0.0f;
      keys[step][row] = there ? k[from] : 0.0f;
      decays[step][row] = there ? __expf(g[from]) : 0.0f;
    }
    __syncthreads();
    int steps = (int)min((int64_t)STEPS, T - start);
    for (int step = 0; step < steps; ++step) {
      int64_t token = (b * T + start + step) * H + h;
      float value = column < V ? v[token * V + column] : 0.0f;
      float predicted = 0.0f, out = 0.0f;
      for (int i = 0; i < OWN; ++i) {
        state[i] *= decays[step][lane * OWN + i];  // decay first: the prediction is from the decayed state
        predicted += state[i] * keys[step][lane * OWN + i];
      }
      float update = beta[token] * (value - over_lanes(predicted));
      for (int i = 0; i < OWN; ++i) {
        state[i] += keys[step][lane * OWN + i] * update;
        out += state[i] * queries[step][lane * OWN + i];
      }
      out = over_lanes(out);
      if (lane == 0 && column < V) {
        o[token * V + column] = out;
      }
    }
    __syncthreads();
  }
  for (int i = 0; i < OWN; ++i) {
    int row = lane * OWN + i;
    if (row < K && column < V) {
      s[state_at + row * V] = state[i];
    }
  }
}
