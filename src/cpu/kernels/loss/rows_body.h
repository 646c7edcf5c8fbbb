/* Loops over one contiguous row, for element type T: included once per type with T, NAME(x) and INT (the
 * integer of the same size) defined.
 *
 * Sums and maxima keep several vectors of partial results, because the compiler may not reorder them by itself.
 *
 * SPDX-License-Identifier: Apache-2.0 */

typedef T NAME(vector) __attribute__((vector_size(MX_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
typedef INT NAME(mask) __attribute__((vector_size(MX_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
#define V NAME(vector)
#define LANES ((int64_t)(MX_VECTOR_BYTES / sizeof(T)))
#define AT(p, i) (*(const V *)((p) + (i)))

/* Halves are combined until 16 bytes are left, then single lanes. */
typedef T NAME(vector32) __attribute__((vector_size(32)));
typedef T NAME(vector16) __attribute__((vector_size(16)));
typedef INT NAME(mask32) __attribute__((vector_size(32)));
typedef INT NAME(mask16) __attribute__((vector_size(16)));
#define LARGER(M, a, b) (((M)(a) & ((a) > (b))) | ((M)(b) & ~((a) > (b))))

static inline NAME(vector16) NAME(sum16)(V v)
{
#if MX_VECTOR_BYTES == 64
    const union { V whole; NAME(vector32) half[2]; } u = {v};
    const union { NAME(vector32) whole; NAME(vector16) half[2]; } w = {u.half[0] + u.half[1]};
    return w.half[0] + w.half[1];
#elif MX_VECTOR_BYTES == 32
    const union { V whole; NAME(vector16) half[2]; } w = {v};
    return w.half[0] + w.half[1];
#else
    return (NAME(vector16))v;
#endif
}

static inline NAME(vector16) NAME(max16)(V v)
{
#if MX_VECTOR_BYTES == 64
    const union { V whole; NAME(vector32) half[2]; } u = {v};
    const union { NAME(mask32) whole; NAME(vector16) half[2]; } w = {LARGER(NAME(mask32), u.half[0], u.half[1])};
    return (NAME(vector16))LARGER(NAME(mask16), w.half[0], w.half[1]);
#elif MX_VECTOR_BYTES == 32
    const union { V whole; NAME(vector16) half[2]; } w = {v};
    return (NAME(vector16))LARGER(NAME(mask16), w.half[0], w.half[1]);
#else
    return (NAME(vector16))v;
#endif
}

static inline T NAME(lanes_sum)(V v)
{
    const NAME(vector16) part = NAME(sum16)(v);
    T sum = part[0] + part[1];
    for (int k = 2; k < (int)(16 / sizeof(T)); k += 2)
        sum += part[k] + part[k + 1];
    return sum;
}

static inline T NAME(lanes_max)(V v)
{
    const NAME(vector16) part = NAME(max16)(v);
    T max = part[0];
    for (int k = 1; k < (int)(16 / sizeof(T)); k++)
        max = part[k] > max ? part[k] : max;
    return max;
}

/* a > b ? a : b, so a NaN in a is ignored */
static inline V NAME(larger)(V a, V b)
{
#if defined(__SSE2__)
    return (V)NAME(VECTOR_MAX)(a, b);
#else
    return (V)LARGER(NAME(mask), a, b);
#endif
}

static inline T NAME(row_max)(const T *x, int64_t n)
{
    T max = -(T)INFINITY;
    int64_t i = 0;
    if (n >= LANES) {
        V a = AT(x, 0), b = a, c = a, d = a;
        for (; i + 4 * LANES <= n; i += 4 * LANES) {
            a = NAME(larger)(AT(x, i), a);
            b = NAME(larger)(AT(x, i + LANES), b);
            c = NAME(larger)(AT(x, i + 2 * LANES), c);
            d = NAME(larger)(AT(x, i + 3 * LANES), d);
        }
        for (; i + LANES <= n; i += LANES)
            a = NAME(larger)(AT(x, i), a);
        max = NAME(lanes_max)(NAME(larger)(NAME(larger)(a, b), NAME(larger)(c, d)));
    }
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    return max;
}

static inline T NAME(row_sum)(const T *x, int64_t n)
{
    V a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += AT(x, i);
        b += AT(x, i + LANES);
        c += AT(x, i + 2 * LANES);
        d += AT(x, i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        a += AT(x, i);
    T sum = NAME(lanes_sum)((a + b) + (c + d));
    for (; i < n; i++)
        sum += x[i];
    return sum;
}

static inline T NAME(row_dot)(const T *x, const T *y, int64_t n)
{
    V a = {0}, b = {0}, c = {0}, d = {0};
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) {
        a += AT(x, i) * AT(y, i);
        b += AT(x, i + LANES) * AT(y, i + LANES);
        c += AT(x, i + 2 * LANES) * AT(y, i + 2 * LANES);
        d += AT(x, i + 3 * LANES) * AT(y, i + 3 * LANES);
    }
    for (; i + LANES <= n; i += LANES)
        a += AT(x, i) * AT(y, i);
    T sum = NAME(lanes_sum)((a + b) + (c + d));
    for (; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* y = x - shift and y = x * factor; y may be x. */
static inline void NAME(row_subtract)(const T *x, T *y, int64_t n, T shift)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        *(V *)(y + i) = AT(x, i) - shift;
    for (; i < n; i++)
        y[i] = x[i] - shift;
}

static inline void NAME(row_multiply)(const T *x, T *y, int64_t n, T factor)
{
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        *(V *)(y + i) = AT(x, i) * factor;
    for (; i < n; i++)
        y[i] = x[i] * factor;
}

/* Sums of x - shift and of its squares: a shift near the mean keeps the variance exact. */
static inline void NAME(row_moments)(const T *x, int64_t n, T shift, T *sum, T *squares)
{
    V a = {0}, b = {0}, p = {0}, q = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const V u = AT(x, i) - shift, v = AT(x, i + LANES) - shift;
        a += u, b += v;
        p += u * u, q += v * v;
    }
    T s = NAME(lanes_sum)(a + b), s2 = NAME(lanes_sum)(p + q);
    for (; i < n; i++) {
        const T u = x[i] - shift;
        s += u, s2 += u * u;
    }
    *sum += s, *squares += s2;
}

/* Sums of g and of g * (x - shift). */
static inline void NAME(row_products)(const T *g, const T *x, int64_t n, T shift, T *sum, T *products)
{
    V a = {0}, b = {0}, p = {0}, q = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const V u = AT(g, i), v = AT(g, i + LANES);
        a += u, b += v;
        p += u * (AT(x, i) - shift), q += v * (AT(x, i + LANES) - shift);
    }
    T s = NAME(lanes_sum)(a + b), s2 = NAME(lanes_sum)(p + q);
    for (; i < n; i++)
        s += g[i], s2 += g[i] * (x[i] - shift);
    *sum += s, *products += s2;
}

/* The same with g weighted: sums of g w and of g w (x - shift). */
static inline void NAME(row_weighted)(const T *g, const T *w, const T *x, int64_t n, T shift, T *sum, T *products)
{
    V a = {0}, b = {0}, p = {0}, q = {0};
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        const V u = AT(g, i) * AT(w, i), v = AT(g, i + LANES) * AT(w, i + LANES);
        a += u, b += v;
        p += u * (AT(x, i) - shift), q += v * (AT(x, i + LANES) - shift);
    }
    T s = NAME(lanes_sum)(a + b), s2 = NAME(lanes_sum)(p + q);
    for (; i < n; i++)
        s += g[i] * w[i], s2 += g[i] * w[i] * (x[i] - shift);
    *sum += s, *products += s2;
}

#undef V
#undef LARGER
#undef LANES
#undef AT
