// assay: {"grid": ["ceildiv(N, 32)", "ceildiv(M, 32)", 1], "block": [32, 8, 1]}
// y[n,m] = x[m,n] through a padded tile, so that both sides of it are coalesced.
#define TILE 32

extern "C" __global__ void transpose(const float *x, float *y, int64_t M, int64_t N) {
  __shared__ float tile[TILE][TILE + 1];
  int64_t top = (int64_t)blockIdx.y * TILE, left = (int64_t)blockIdx.x * TILE;
  for (int row = threadIdx.y; row < TILE; row += 8) {
    if (top + row < M && left + threadIdx.x < N) {
      tile[row][threadIdx.x] = x[(top + row) * N + left + threadIdx.x];
    }
  }
  __syncthreads();
  for (int row = threadIdx.y; row < TILE; row += 8) {
    if (left + row < N && top + threadIdx.x < M) {
      y[(left + row) * M + top + threadIdx.x] = tile[threadIdx.x][row];
    }
  }
}
