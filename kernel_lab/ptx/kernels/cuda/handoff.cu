// assay: {"grid": ["ceildiv(N, 256)", 1, 1], "block": [128, 1, 1]}
// y[n] = x[n] + 1 through one buffer between two warps that write and two that read, with two named barriers: the side
// that goes on only arrives, the side that needs the buffer waits.
#define TILE 64

__device__ __forceinline__ void arrive(int barrier) { asm volatile("bar.arrive %0, 128;" ::"r"(barrier) : "memory"); }
__device__ __forceinline__ void wait(int barrier) { asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory"); }

extern "C" __global__ void handoff(const float *x, float *y, int64_t N) {
  __shared__ float buffer[TILE];
  const int written = 1, taken = 2;
  int64_t base = (int64_t)blockIdx.x * 256;
  int at = threadIdx.x % TILE;

  if (threadIdx.x < TILE) {
#pragma unroll 1
    for (int tile = 0; tile < 4; ++tile) {
      int64_t n = base + tile * TILE + at;
      if (tile > 0) {
        wait(taken);
      }
      buffer[TILE - 1 - at] = n < N ? x[n] : 0.0f;  // reversed: another warp's word, so only the barriers order it
      arrive(written);
    }
  } else {
#pragma unroll 1
    for (int tile = 0; tile < 4; ++tile) {
      int64_t n = base + tile * TILE + at;
      wait(written);
      float value = buffer[TILE - 1 - at];
      if (tile < 3) {
        arrive(taken);
      }
      if (n < N) {
        y[n] = value + 1.0f;
      }
    }
  }
}
