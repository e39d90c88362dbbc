// workload: rms_norm
// expect: verified
// An approximation inside the bound, after two Newton steps.
#include <immintrin.h>
#include <stdint.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        float s = 0;
        for (int64_t i = 0; i < H; i++)
            s += x[i] * x[i];
        float v = s / (float)H + eps, r = _mm_cvtss_f32(_mm_rsqrt_ss(_mm_set_ss(v)));
        r *= 1.5f - 0.5f * v * r * r;
        r *= 1.5f - 0.5f * v * r * r;
        for (int64_t i = 0; i < H; i++)
            y[i] = x[i] * r * w[i];
    }
}
