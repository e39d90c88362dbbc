// Blocks of b stay in the second-level cache while four rows of c at a time, in lanes, run over them.
#include <stdint.h>

enum { ROWS = 4, LANES = 32, DEPTH = 256 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void tile(const float *restrict a, const float *restrict b, float *restrict c, int64_t N, int64_t K, int64_t depth) {
    float lanes[ROWS][LANES];
    for (int r = 0; r < ROWS; r++)
        for (int l = 0; l < LANES; l++) lanes[r][l] = c[r * N + l];
    for (int64_t k = 0; k < depth; k++)
        for (int r = 0; r < ROWS; r++)
            for (int l = 0; l < LANES; l++) lanes[r][l] += a[r * K + k] * b[k * N + l];
    for (int r = 0; r < ROWS; r++)
        for (int l = 0; l < LANES; l++) c[r * N + l] = lanes[r][l];
}

static void edge(const float *restrict a, const float *restrict b, float *restrict c, int64_t N, int64_t K, int64_t rows,
                 int64_t columns, int64_t depth) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < depth; k++)
            for (int64_t n = 0; n < columns; n++) c[r * N + n] += a[r * K + k] * b[k * N + n];
}

void gemm(const float *restrict a, const float *restrict b, float *restrict c, int64_t M, int64_t N, int64_t K) {
    for (int64_t n = 0; n < M * N; n++) c[n] = 0.0f;
#pragma omp parallel for if (M * N * K > 65536)
    for (int64_t n = 0; n < N; n += LANES)
        for (int64_t k = 0; k < K; k += DEPTH)
            for (int64_t m = 0; m < M; m += ROWS) {
                const int64_t rows = least(ROWS, M - m), columns = least(LANES, N - n), depth = least(DEPTH, K - k);
                if (rows == ROWS && columns == LANES)
                    tile(a + m * K + k, b + k * N + n, c + m * N + n, N, K, depth);
                else
                    edge(a + m * K + k, b + k * N + n, c + m * N + n, N, K, rows, columns, depth);
            }
}
