// assay: {"grid": ["ceildiv(N, 64)", "ceildiv(M, 64)", 1], "block": [128, 1, 1]}
// c = a·b on the tensor cores, fp16 or bf16 in and out, float32 sums: mma.sync m16n8k16, ldmatrix, and cp.async into two
// buffers. A CTA owns 64×64 of c, each of its four warps 32×32, 32 deep at a time. cp.async needs rows on 16 bytes (K and
// N multiples of 8 and aligned pointers); other shapes go through registers, element by element.
#define TILE 64
#define DEPTH 32
#define A_STRIDE (DEPTH + 8)
#define B_STRIDE (TILE + 8)

typedef unsigned short half_bits;

struct Fp16 {
  static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ half_bits rounded(float value) {
    half_bits bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

struct Bf16 {
  static __device__ __forceinline__ void mma(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
  static __device__ __forceinline__ half_bits rounded(float value) {
    half_bits bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
};

__device__ __forceinline__ unsigned shared_address(const void *pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address)
               : "memory");
}

// Eight elements of one row into shared memory; what lies outside of the matrix becomes zero.
__device__ __forceinline__ void copy_eight(half_bits *to, const half_bits *matrix, int64_t row, int64_t column,
                                           int64_t rows, int64_t columns, bool aligned) {
  if (aligned) {
    bool there = row < rows && column < columns;
    const half_bits *from = there ? matrix + row * columns + column : matrix;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(there ? 16 : 0)
                 : "memory");
    return;
  }
#pragma unroll 1
  for (int e = 0; e < 8; ++e) {
    bool there = row < rows && column + e < columns;
    to[e] = there ? matrix[row * columns + column + e] : (half_bits)0;
  }
}

template <class Format>
__device__ __forceinline__ void multiply(const half_bits *a, const half_bits *b, half_bits *c, int64_t M, int64_t N,
                                         int64_t K) {
  __shared__ __align__(16) half_bits a_tile[2][TILE * A_STRIDE];
  __shared__ __align__(16) half_bits b_tile[2][DEPTH * B_STRIDE];
  int64_t top = (int64_t)blockIdx.y * TILE, left = (int64_t)blockIdx.x * TILE;
  int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
  int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  bool aligned = K % 8 == 0 && N % 8 == 0 && ((unsigned long long)a | (unsigned long long)b) % 16 == 0;

  auto fetch = [&](int buffer, int64_t depth) {
#pragma unroll
    for (int part = 0; part < 2; ++part) {
      int at = thread + 128 * part;
      int a_row = at / 4, a_column = at % 4 * 8, b_row = at / 8, b_column = at % 8 * 8;
      copy_eight(&a_tile[buffer][a_row * A_STRIDE + a_column], a, top + a_row, depth + a_column, M, K, aligned);
      copy_eight(&b_tile[buffer][b_row * B_STRIDE + b_column], b, depth + b_row, left + b_column, K, N, aligned);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  float sum[2][4][4] = {};
  int64_t slabs = (K + DEPTH - 1) / DEPTH;
  fetch(0, 0);
#pragma unroll 1
  for (int64_t slab = 0; slab < slabs; ++slab) {
    int buffer = (int)(slab % 2);
    if (slab + 1 < slabs) {
      fetch(buffer ^ 1, (slab + 1) * DEPTH);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();  // this slab is there for all
#pragma unroll
    for (int d = 0; d < DEPTH; d += 16) {
      unsigned a_part[2][4], b_part[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_matrices(a_part[i], shared_address(&a_tile[buffer][(warp_row + 16 * i + lane % 16) * A_STRIDE + d +
                                                                lane / 16 * 8]));
        load_transposed(b_part[i], shared_address(&b_tile[buffer][(d + lane % 16) * B_STRIDE + warp_column + 16 * i +
                                                                  lane / 16 * 8]));
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          Format::mma(sum[i][j], a_part[i], b_part[j / 2][j % 2 * 2], b_part[j / 2][j % 2 * 2 + 1]);
        }
      }
    }
    __syncthreads();  // and was read by all
  }
#pragma unroll
  for (int at = 0; at < 32; ++at) {
    int i = at / 16, j = at / 4 % 4, r = at % 4;
    int64_t row = top + warp_row + 16 * i + lane / 4 + r / 2 * 8;
    int64_t column = left + warp_column + 8 * j + lane % 4 * 2 + r % 2;
    if (row < M && column < N) {
      c[row * N + column] = Format::rounded(sum[i][j][r]);
    }
  }
}

extern "C" __global__ void gemm_f16(const half_bits *a, const half_bits *b, half_bits *c, int64_t M, int64_t N,
                                    int64_t K) {
  multiply<Fp16>(a, b, c, M, N, K);
}

extern "C" __global__ void gemm_bf16(const half_bits *a, const half_bits *b, half_bits *c, int64_t M, int64_t N,
                                     int64_t K) {
  multiply<Bf16>(a, b, c, M, N, K);
}
