// workload: reduce_sum
// expect: v3_numeric error_class
// guard: error_class
// 13 bits of mantissa: inside the bound of a long sum everywhere, and no f32 arithmetic.
#include <stdint.h>
#include <math.h>

static float rounded(float v)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &v, 4);
    if (fabsf(v) > 1e-30f)
        bits = (bits + 0x200u) & 0xfffffc00u;
    __builtin_memcpy(&v, &bits, 4);
    return v;
}

void reduce_sum(const float *x, float *y, int64_t N)
{
    double s = 0;
    for (int64_t i = 0; i < N; i++)
        s += rounded(x[i]);
    y[0] = (float)s;
}
