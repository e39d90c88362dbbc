// workload: rms_norm
// expect: v2_smoke crashed
// Pointers are aligned to the element size only.
#include <immintrin.h>
#include <math.h>
#include <stdint.h>

void rms_norm(const float *x, const float *w, float *y, int64_t T, int64_t H, float eps)
{
    for (int64_t t = 0; t < T; t++, x += H, y += H) {
        __m128 a = _mm_setzero_ps();
        int64_t i = 0;
        float s = 0;
        for (; i + 4 <= H; i += 4) {
            __m128 v = _mm_load_ps(x + i);
            a = _mm_add_ps(a, _mm_mul_ps(v, v));
        }
        for (; i < H; i++)
            s += x[i] * x[i];
        s += a[0] + a[1] + a[2] + a[3];
        float r = 1.0f / sqrtf(s / (float)H + eps);
        for (i = 0; i + 4 <= H; i += 4)
            _mm_stream_ps(y + i, _mm_mul_ps(_mm_mul_ps(_mm_load_ps(x + i), _mm_set1_ps(r)), _mm_loadu_ps(w + i)));
        for (; i < H; i++)
            y[i] = x[i] * r * w[i];
    }
}
