// assay: {"grid": ["ceildiv(N, 32)", "ceildiv(M, 32)", 1], "block": [16, 16, 1]}
// c = a·b in float32. A CTA owns 32×32 of c, a thread 2×2 of it, 16 deep through shared memory.
#define TILE 32
#define DEPTH 16

extern "C" __global__ void gemm(const float *a, const float *b, float *c, int64_t M, int64_t N, int64_t K) {
  __shared__ float a_tile[TILE][DEPTH + 1];
  __shared__ float b_tile[DEPTH][TILE];
  int tx = threadIdx.x, ty = threadIdx.y;
  int64_t top = (int64_t)blockIdx.y * TILE, left = (int64_t)blockIdx.x * TILE;
  float sum[2][2] = {{0.0f, 0.0f}, {0.0f, 0.0f}};

  for (int64_t depth = 0; depth < K; depth += DEPTH) {
    for (int half = 0; half < 2; ++half) {
      int row = ty + 16 * half, column = tx + 16 * half;
      a_tile[row][tx] = top + row < M && depth + tx < K ? a[(top + row) * K + depth + tx] : 0.0f;
      b_tile[ty][column] = depth + ty < K && left + column < N ? b[(depth + ty) * N + left + column] : 0.0f;
    }
    __syncthreads();  // both tiles are there
    for (int d = 0; d < DEPTH; ++d) {
      float a0 = a_tile[ty][d], a1 = a_tile[ty + 16][d];
      float b0 = b_tile[d][tx], b1 = b_tile[d][tx + 16];
      sum[0][0] += a0 * b0;
      sum[0][1] += a0 * b1;
      sum[1][0] += a1 * b0;
      sum[1][1] += a1 * b1;
    }
    __syncthreads();  // and were read by all
  }
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      int64_t row = top + ty + 16 * i, column = left + tx + 16 * j;
      if (row < M && column < N) {
        c[row * N + column] = sum[i][j];
      }
    }
  }
}
