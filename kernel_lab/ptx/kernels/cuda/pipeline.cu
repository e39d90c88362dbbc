// assay: {"grid": ["ceildiv(N, 1024)", 1, 1], "block": [160, 1, 1]}
// y[n] = alpha·x[n], to show a ring of two buffers between one producer warp and four consumer warps. Only mbarrier
// operations that sm_80 has: arrive gives the phase's state, test_wait asks for it, expected counts are set at init.
#define TILE 128
#define TILES 8
#define STAGES 2

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void barrier_init(unsigned long long *barrier, unsigned count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_arrive(unsigned long long *barrier) {
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(shared_address(barrier)) : "memory");
}

// Returns once the phase of this parity is complete.
__device__ __forceinline__ void barrier_wait(unsigned long long *barrier, unsigned parity) {
  unsigned done = 0;
  while (!done) {
    asm volatile(
        "{\n .reg .pred complete;\n"
        " mbarrier.test_wait.parity.shared.b64 complete, [%1], %2;\n"
        " selp.u32 %0, 1, 0, complete;\n}"
        : "=r"(done)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
  }
}

extern "C" __global__ void pipeline(const float *x, float *y, int64_t N, float alpha) {
  __shared__ float ring[STAGES][TILE];
  __shared__ unsigned long long full[STAGES];
  __shared__ unsigned long long empty[STAGES];
  int64_t base = (int64_t)blockIdx.x * TILE * TILES;

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(&full[stage], 32);
      barrier_init(&empty[stage], TILE);
    }
  }
  __syncthreads();

  if (threadIdx.x >= TILE) {  // the producer warp
    int lane = threadIdx.x - TILE;
    for (int tile = 0; tile < TILES; ++tile) {
      int stage = tile % STAGES;
      barrier_wait(&empty[stage], (tile / STAGES & 1) ^ 1);  // at first, the phase before the first counts as complete
      for (int at = lane; at < TILE; at += 32) {
        int64_t n = base + tile * TILE + at;
        ring[stage][at] = n < N ? x[n] : 0.0f;
      }
      barrier_arrive(&full[stage]);
    }
  } else {
    for (int tile = 0; tile < TILES; ++tile) {
      int stage = tile % STAGES;
      barrier_wait(&full[stage], tile / STAGES & 1);
      int64_t n = base + tile * TILE + threadIdx.x;
      float value = ring[stage][threadIdx.x];
      barrier_arrive(&empty[stage]);
      if (n < N) {
        y[n] = alpha * value;
      }
    }
  }
}
