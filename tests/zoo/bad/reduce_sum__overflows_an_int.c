// workload: reduce_sum
// expect: v7_sanitizers undefined_behaviour
// depth: deep
// What a signed overflow gives is the compiler's choice; today it gives what was meant.
#include <stdint.h>

void reduce_sum(const float *x, float *y, int64_t N)
{
    float s[4] = {0};
    int spread = 1;
    for (int64_t i = 0; i < N; i++) {
        spread = spread * 1103515245 + 12345;
        s[spread >> 8 & 3] += x[i];
    }
    y[0] = s[0] + s[1] + s[2] + s[3];
}
