// assay: {"grid": ["H", "B", 1], "block": [256, 1, 1]}
// Kimi Delta Attention in chunks of 16 tokens (arXiv 2510.26692), K <= 64 and V <= 64, one CTA a head. With G the running
// sum of g in the chunk and D_ij = exp(G_i − G_j) per channel, taken pairwise because exp(−G) alone overflows:
//   (I + L) Vn = beta·(V − (K⊙e^G) S0), L = beta·tril₋₁(Σ k_i D_ij k_j)
//   O = scale (Q⊙e^G) S0 + scale tril(Σ q_i D_ij k_j) Vn;  S = e^{G_C} S0 + (K⊙e^{G_C−G})ᵀ Vn
#define WIDE 64
#define CHUNK 16

extern "C" __global__ void kda_prefill(const float *q, const float *k, const float *v, const float *g,
                                       const float *beta, const float *s0, float *o, float *s, int64_t B, int64_t T,
                                       int64_t H, int64_t K, int64_t V, float scale) {
  __shared__ float state[WIDE][WIDE];
  __shared__ float queries[CHUNK][WIDE + 1];
  __shared__ float keys[CHUNK][WIDE + 1];
  __shared__ float gates[CHUNK][WIDE + 1];
  __shared__ float news[CHUNK][WIDE];
  __shared__ float lower[CHUNK][CHUNK];
  __shared__ float mixed[CHUNK][CHUNK];
  __shared__ float betas[CHUNK];
  int64_t h = blockIdx.x, b = blockIdx.y;
  int64_t state_at = (b * H + h) * K * V;

  for (int at = threadIdx.x; at < WIDE * WIDE; at += blockDim.x) {
    int row = at / WIDE, column = at % WIDE;
    state[row][column] = row < K && column < V ? s0[state_at + row * V + column] : 0.0f;
  }
  for (int64_t start = 0; start < T; start += CHUNK) {
    for (int at = threadIdx.x; at < CHUNK * WIDE; at += blockDim.x) {
      int i = at / WIDE, c = at % WIDE;
      int64_t token = (b * T + start + i) * H + h;
      bool key_there = start + i < T && c < K, value_there = start + i < T && c < V;
      queries[i][c] = key_there ? q[token * K + c] * scale : 0.0f;
      keys[i][c] = key_there ? k[token * K + c] : 0.0f;
      gates[i][c] = key_there ? g[token * K + c] : 0.0f;
      news[i][c] = value_there ? v[token * V + c] : 0.0f;
    }
    if (threadIdx.x < CHUNK) {
      betas[threadIdx.x] = start + threadIdx.x < T ? beta[(b * T + start + threadIdx.x) * H + h] : 0.0f;
    }
    __syncthreads();
    if (threadIdx.x < WIDE) {
      for (int i = 1; i < CHUNK; ++i) {
        gates[i][threadIdx.x] += gates[i - 1][threadIdx.x];
      }
    }
    __syncthreads();

    int row = threadIdx.x / CHUNK, column = threadIdx.x % CHUNK;
    float key_key = 0.0f, query_key = 0.0f;
    for (int c = 0; c < WIDE; ++c) {
      float decayed = column <= row ? keys[column][c] * __expf(gates[row][c] - gates[column][c]) : 0.0f;
      key_key += keys[row][c] * decayed;
      query_key += queries[row][c] * decayed;
    }
    lower[row][column] = column < row ? betas[row] * key_key : 0.0f;
    mixed[row][column] = query_key;
    for (int at = threadIdx.x; at < CHUNK * WIDE; at += blockDim.x) {
      int i = at / WIDE, n = at % WIDE;
      float predicted = 0.0f;
      for (int c = 0; c < WIDE; ++c) {
        predicted += keys[i][c] * __expf(gates[i][c]) * state[c][n];
      }
      news[i][n] = betas[i] * (news[i][n] - predicted);
    }
    __syncthreads();
    if (threadIdx.x < WIDE) {
      for (int i = 1; i < CHUNK; ++i) {
        float known = 0.0f;
        for (int j = 0; j < i; ++j) {
          known += lower[i][j] * news[j][threadIdx.x];
        }
        news[i][threadIdx.x] -= known;
      }
    }
    __syncthreads();

    for (int at = threadIdx.x; at < CHUNK * WIDE; at += blockDim.x) {
      int i = at / WIDE, n = at % WIDE;
      float out = 0.0f;
      for (int c = 0; c < WIDE; ++c) {
        out += queries[i][c] * __expf(gates[i][c]) * state[c][n];
      }
      for (int j = 0; j < CHUNK; ++j) {
        out += mixed[i][j] * news[j][n];
      }
      if (start + i < T && n < V) {
        o[((b * T + start + i) * H + h) * V + n] = out;
      }
    }
    __syncthreads();
    for (int at = threadIdx.x; at < WIDE * WIDE; at += blockDim.x) {
      int c = at / WIDE, n = at % WIDE;
      float last = gates[CHUNK - 1][c];
      float kept = __expf(last) * state[c][n];
      for (int j = 0; j < CHUNK; ++j) {
        kept += keys[j][c] * __expf(last - gates[j][c]) * news[j][n];
      }
      state[c][n] = kept;
    }
    __syncthreads();
  }
  for (int at = threadIdx.x; at < WIDE * WIDE; at += blockDim.x) {
    int row = at / WIDE, column = at % WIDE;
    if (row < K && column < V) {
      s[state_at + row * V + column] = state[row][column];
    }
  }
}
