// workload: rms_norm
// expect: verified
// Reordered sums, FMA, and another order of the products.
#include <stdint.h>
#include <math.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        float a[8] = {0}, s = 0;
        int64_t i = 0;
        for (; i + 8 <= H; i += 8)
            for (int k = 0; k < 8; k++)
                a[k] = fmaf(x[i + k], x[i + k], a[k]);
        for (; i < H; i++)
            s += x[i] * x[i];
        s += ((a[0] + a[4]) + (a[2] + a[6])) + ((a[1] + a[5]) + (a[3] + a[7]));
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (i = 0; i < H; i++)
            y[i] = x[i] * (r * w[i]);
    }
}
