/* The loops of one fold for one compute type; a body, included once per fold and type.
 *
 * The includer defines
 *     T, A                  type of the elements, of the totals
 *     FN(x)                 adds fold and type to a name
 *     P                     type in which a block of elements is joined: T for sums, A where T could overflow
 *     IDENTITY, MAP(v), JOIN(p, v), FINISH(t, count)
 * and, where parts are not just totals of a narrower type,
 *     PART_IDENTITY, WIDEN(p), JOIN_TOTAL(t, v)
 *     PLAIN_SUM             elements of type T == P are added: the parts can be vectors
 * All but T and A are undefined at the end.
 * Every loop runs over independent columns, so that it vectorises without reordering a sum.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#ifndef WIDEN
#define PART_IDENTITY IDENTITY
#define WIDEN(p) (p)
#define JOIN_TOTAL JOIN
#endif

static inline P FN(map)(T v) { return (P)(MAP(v)); }
static inline P FN(join)(P p, P v) { return (P)(JOIN(p, v)); }
static inline A FN(join_total)(A p, A v) { return (A)(JOIN_TOTAL(p, v)); }

/* part[j] is joined with four rows that are `apart`, then with the four that follow `step` later, `count` times; four
 * at a time reduce the loads and stores of the part. */
static inline __attribute__((always_inline)) void FN(fours)(const T *x, int64_t step, int64_t apart, int64_t count,
                                                            int64_t n, P *restrict part)
{
    for (int64_t r = 0; r < count; r++) {
        const T *a = x + r * step, *b = a + apart, *c = b + apart, *d = c + apart;
        for (int64_t j = 0; j < n; j++) {
            const P ab = FN(join)(FN(map)(a[j]), FN(map)(b[j])), cd = FN(join)(FN(map)(c[j]), FN(map)(d[j]));
            part[j] = FN(join)(part[j], FN(join)(ab, cd));
        }
    }
}

/* part[j] is joined with `rows` rows. */
static inline __attribute__((always_inline)) void FN(block)(const T *x, int64_t step, int64_t rows, int64_t n,
                                                            P *restrict part)
{
    FN(fours)(x, 4 * step, step, rows / 4, n, part);
    for (int64_t r = rows / 4 * 4; r < rows; r++)
        for (int64_t j = 0; j < n; j++)
            part[j] = FN(join)(part[j], FN(map)(x[r * step + j]));
}

static void FN(start)(void *totals, int64_t n)
{
    A *total = totals;
    for (int64_t j = 0; j < n; j++)
        total[j] = (A)(IDENTITY);
}

static void FN(merge)(const void *parts, int64_t n, void *totals)
{
    const A *part = parts;
    A *total = totals;
    for (int64_t j = 0; j < n; j++)
        total[j] = FN(join_total)(total[j], part[j]);
}

static void FN(rows)(const void *elements, int64_t step, int64_t rows, int64_t n, void *totals)
{
    A *total = totals;
    P part[FOLD_STRIP];
    for (int64_t r = 0; r < rows; r += FOLD_BLOCK) {
        const int64_t count = rows - r < FOLD_BLOCK ? rows - r : FOLD_BLOCK;
        for (int64_t at = 0; at < n; at += FOLD_STRIP) {
            const int64_t width = n - at < FOLD_STRIP ? n - at : FOLD_STRIP;
            for (int64_t j = 0; j < width; j++)
                part[j] = (P)(PART_IDENTITY);
            FN(block)((const T *)elements + r * step + at, step, count, width, part);
            for (int64_t j = 0; j < width; j++)
                total[at + j] = FN(join_total)(total[at + j], (A)WIDEN(part[j]));
        }
    }
}

static inline void FN(start_lanes)(P *part)
{
    for (int j = 0; j < FOLD_LANES; j++)
        part[j] = (P)(PART_IDENTITY);
}

static inline A FN(join_lanes)(P *part)
{
    for (int half = FOLD_LANES / 2; half; half /= 2)
        for (int j = 0; j < half; j++)
            part[j] = FN(join)(part[j], part[j + half]);
    return (A)WIDEN(part[0]);
}

#ifdef PLAIN_SUM
/* The same sums as block's of rows that follow each other, with the part in registers. */
static inline void FN(sum_rows)(const T *x, int64_t rows, P *part)
{
    typedef T vector __attribute__((vector_size(MX_VECTOR_BYTES), aligned(sizeof(T)), may_alias));
    enum { LANES = MX_VECTOR_BYTES / sizeof(T), VECTORS = FOLD_LANES / LANES };
    vector sum[VECTORS] = {{0}};
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4, x += 4 * FOLD_LANES)
        _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++)
        {
            const vector *a = (const vector *)(x + v * LANES), *b = (const vector *)(x + FOLD_LANES + v * LANES),
                         *c = (const vector *)(x + 2 * FOLD_LANES + v * LANES),
                         *d = (const vector *)(x + 3 * FOLD_LANES + v * LANES);
            sum[v] += (*a + *b) + (*c + *d);
        }
    for (; r < rows; r++, x += FOLD_LANES)
        _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) sum[v] += *(const vector *)(x + v * LANES);
    _Pragma("GCC unroll 16") for (int v = 0; v < VECTORS; v++) * (vector *)(part + v * LANES) = sum[v];
}
#endif

/* Up to FOLD_BLOCK rows of FOLD_LANES elements and the rest after the last row. */
static inline A FN(run_block)(const T *x, int64_t n)
{
    P part[FOLD_LANES];
    const int64_t rows = n / FOLD_LANES, rest = n % FOLD_LANES;
#ifdef PLAIN_SUM
    FN(sum_rows)(x, rows, part);
#else
    FN(start_lanes)(part);
    FN(block)(x, FOLD_LANES, rows, FOLD_LANES, part);
#endif
    if (rest)
        FN(block)(x + rows * FOLD_LANES, 0, 1, rest, part);
    return FN(join_lanes)(part);
}

/* FOLD_STREAM elements, read as four streams: this is faster than one long run. */
static inline A FN(run_stream)(const T *x)
{
    P part[FOLD_LANES];
    A sum = (A)(IDENTITY);
    for (int64_t at = 0; at < FOLD_STREAM / 4; at += FOLD_BLOCK / 4 * FOLD_LANES) {
        FN(start_lanes)(part);
        FN(fours)(x + at, FOLD_LANES, FOLD_STREAM / 4, FOLD_BLOCK / 4, FOLD_LANES, part);
        sum = FN(join_total)(sum, FN(join_lanes)(part));
    }
    return sum;
}

static inline A FN(run)(const T *x, int64_t n)
{
    A sum = (A)(IDENTITY);
    for (; n >= FOLD_STREAM; x += FOLD_STREAM, n -= FOLD_STREAM)
        sum = FN(join_total)(sum, FN(run_stream)(x));
    for (int64_t at = 0; at < n; at += FOLD_BLOCK * FOLD_LANES) {
        const int64_t count = n - at < FOLD_BLOCK * FOLD_LANES ? n - at : FOLD_BLOCK * FOLD_LANES;
        sum = FN(join_total)(sum, FN(run_block)(x + at, count));
    }
    return sum;
}

static void FN(runs)(const void *elements, int64_t n, int64_t count, void *totals)
{
    const T *x = elements;
    A *total = totals;
    for (int64_t k = 0; k < count; k++, x += n) {
        if (n >= FOLD_SHORT) {
            total[k] = FN(join_total)(total[k], FN(run)(x, n));
            continue;
        }
        P single = (P)(PART_IDENTITY);
        for (int64_t i = 0; i < n; i++)
            single = FN(join)(single, FN(map)(x[i]));
        total[k] = FN(join_total)(total[k], (A)WIDEN(single));
    }
}

static void FN(finish)(void *totals, int64_t n, int64_t count)
{
    A *total = totals;
    (void)count;
    for (int64_t j = 0; j < n; j++)
        total[j] = (A)(FINISH(total[j], count));
}

#undef PLAIN_SUM
#undef P
#undef IDENTITY
#undef PART_IDENTITY
#undef WIDEN
#undef JOIN_TOTAL
#undef MAP
#undef JOIN
#undef FINISH
#undef FN
