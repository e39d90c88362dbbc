// workload: transpose
// expect: v2_smoke not_exact
#include <stdint.h>
#include <string.h>

void transpose(const float *x, float *y, int64_t M, int64_t N)
{
    memcpy(y, x, (uint64_t)M * (uint64_t)N * sizeof(float));
}
