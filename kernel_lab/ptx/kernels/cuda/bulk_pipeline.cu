// assay: {"grid": ["ceildiv(N, 1024)", 1, 1], "block": [128, 1, 1]}
// y[n] = alpha·x[n] as sm_90 does it: bulk copies that report their bytes to an mbarrier, and a bulk copy back. N must be
// a multiple of 4 and both pointers on 16 bytes.
#define TILE 256
#define TILES 4
#define STAGES 2

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void barrier_init(unsigned long long *barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}

__device__ __forceinline__ void arrive_and_expect(unsigned long long *barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void barrier_wait(unsigned long long *barrier, unsigned parity) {
  asm volatile(
      "{\n .reg .pred complete;\n"
      "again:\n"
      " mbarrier.try_wait.parity.shared::cta.b64 complete, [%0], %1;\n"
      " @complete bra done;\n"
      " bra again;\n"
      "done:\n}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

__device__ __forceinline__ void fetch(float *to, const float *from, unsigned bytes, unsigned long long *barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void send(float *to, const float *from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared_address(from)),
               "r"(bytes)
               : "memory");
}

extern "C" __global__ void bulk_pipeline(const float *x, float *y, int64_t N, float alpha) {
  __shared__ __align__(128) float arriving[STAGES][TILE];
  __shared__ __align__(128) float leaving[STAGES][TILE];
  __shared__ unsigned long long full[STAGES];
  int64_t base = (int64_t)blockIdx.x * TILE * TILES;
  bool leader = threadIdx.x == 0;

  if (leader) {
    for (int stage = 0; stage < STAGES; ++stage) {
      barrier_init(&full[stage], 1);
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();

  auto bytes_of = [&](int tile) {
    int64_t left = N - base - tile * TILE;
    return (unsigned)(4 * max((int64_t)0, min(left, (int64_t)TILE)));
  };
  auto fetch_tile = [&](int tile) {
    unsigned bytes = bytes_of(tile);
    if (leader && tile < TILES && bytes > 0) {
      arrive_and_expect(&full[tile % STAGES], bytes);
      fetch(arriving[tile % STAGES], x + base + tile * TILE, bytes, &full[tile % STAGES]);
    }
  };

  fetch_tile(0);
#pragma unroll 1
  for (int tile = 0; tile < TILES && bytes_of(tile) > 0; ++tile) {
    int stage = tile % STAGES;
    fetch_tile(tile + 1);
    barrier_wait(&full[stage], tile / STAGES & 1);
    if (leader) {  // the copy that left this stage two tiles ago has read it
      asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    }
    __syncthreads();
    for (int at = threadIdx.x; at < bytes_of(tile) / 4; at += blockDim.x) {
      leaving[stage][at] = alpha * arriving[stage][at];
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the copy unit sees what was written
    __syncthreads();
    if (leader) {
      send(y + base + tile * TILE, leaving[stage], bytes_of(tile));
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
  }
  if (leader) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
