/* Strided copies of one element size; included once per size with T (unsigned integer) and BITS defined.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* to[a * ta + b * tb] = from[a * fa + b * fb] for a < na, b < nb; the longer of the two axes is the inner loop, in
 * pieces that stay in the first-level cache. */
static void NAME(copy_plane)(T *restrict to, const T *restrict from, int64_t na, int64_t ta, int64_t fa, int64_t nb,
                             int64_t tb, int64_t fb)
{
    if (nb < 8 && na > nb) {
        int64_t swap = na;
        na = nb, nb = swap;
        swap = ta, ta = tb, tb = swap;
        swap = fa, fa = fb, fb = swap;
    }
    for (int64_t begin = 0; begin < nb; begin += 1024) {
        const int64_t n = nb - begin < 1024 ? nb - begin : 1024;
        for (int64_t a = 0; a < na; a++) {
            T *restrict row = to + a * ta + begin * tb;
            const T *restrict source = from + a * fa + begin * fb;
            if (tb == 1 && fb == 0)
                for (int64_t i = 0; i < n; i++)
                    row[i] = *source;
            else if (tb == 1 && fb == 1)
                for (int64_t i = 0; i < n; i++)
                    row[i] = source[i];
            else if (tb == 1 && fb == -1)
                for (int64_t i = 0; i < n; i++)
                    row[i] = source[-i];
            else if (tb == 1)
                for (int64_t i = 0; i < n; i++)
                    row[i] = source[i * fb];
            else if (fb == 1)
                for (int64_t i = 0; i < n; i++)
                    row[i * tb] = source[i];
            else
                for (int64_t i = 0; i < n; i++)
                    row[i * tb] = source[i * fb];
        }
    }
}

/* An 8x8 block: rows of `from` become columns of `to`, in three rounds of exchanging neighbours 4, 2 and 1 apart. */
typedef T NAME(row8) __attribute__((vector_size(8 * sizeof(T)), aligned(sizeof(T)), may_alias));
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
static inline void NAME(turn_block)(T *restrict to, int64_t to_row, const T *restrict from, int64_t from_row)
{
    NAME(row8) r[8], s[8];
    for (int i = 0; i < 8; i++)
        r[i] = *(const NAME(row8) *)(from + i * from_row);
    for (int i = 0; i < 4; i++) {
        s[i] = MIX(r[i], r[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        s[i + 4] = MIX(r[i], r[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            r[i + k] = MIX(s[i + k], s[i + k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            r[i + k + 2] = MIX(s[i + k], s[i + k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 8; i += 2) {
        *(NAME(row8) *)(to + i * to_row) = MIX(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        *(NAME(row8) *)(to + (i + 1) * to_row) = MIX(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
}
#undef MIX

/* A tile of na x nb elements, both multiples of 8: transposed in a buffer, then written a full cache line at a time, so
 * that target lines in the same cache set do not evict each other half written. */
#define LINE (64 / (int64_t)sizeof(T))
static inline void NAME(turn_tile)(T *restrict to, int64_t ta, const T *restrict from, int64_t fb, int64_t na,
                                   int64_t nb)
{
    T buffer[2 * LINE * LINE] __attribute__((aligned(64)));
    for (int64_t b = 0; b < nb; b += 8)
        for (int64_t a = 0; a < na; a += 8)
            NAME(turn_block)(buffer + a * LINE + b, LINE, from + a + b * fb, fb);
    if (nb == LINE)
        for (int64_t a = 0; a < na; a++)
            memcpy(to + a * ta, buffer + a * LINE, 64);
    else
        for (int64_t a = 0; a < na; a++)
            memcpy(to + a * ta, buffer + a * LINE, (size_t)nb * sizeof(T));
}

/* to[a * ta + b] = from[a + b * fb] for a < na, b < nb.  Tiles are two cache lines of the source wide and one of the
 * target high; four of them are stacked, so that the pages of their rows stay in the TLB. */
static void NAME(turn_plane)(T *restrict to, const T *restrict from, int64_t na, int64_t ta, int64_t nb, int64_t fb)
{
    const int64_t full_a = na / 8 * 8, full_b = nb / 8 * 8;
    for (int64_t b0 = 0; b0 < full_b; b0 += 4 * LINE)
        for (int64_t a = 0; a < full_a; a += 2 * LINE)
            for (int64_t b = b0; b < b0 + 4 * LINE && b < full_b; b += LINE)
                NAME(turn_tile)(to + a * ta + b, ta, from + a + b * fb, fb,
                                full_a - a < 2 * LINE ? full_a - a : 2 * LINE, full_b - b < LINE ? full_b - b : LINE);
    NAME(copy_plane)(to + full_a * ta, from + full_a, na - full_a, ta, 1, nb, 1, fb);
    NAME(copy_plane)(to + full_b, from + full_b * fb, full_a, ta, 1, nb - full_b, 1, fb);
}
#undef LINE

static void NAME(move_plane)(const strided *s, char *to, const char *from)
{
    const int a = s->ndim - 2, b = s->ndim - 1;
    if (s->to[b] == 1 && s->from[a] == 1 && s->from[b] != 0 && s->dim[a] >= 8 && s->dim[b] >= 8)
        NAME(turn_plane)((T *)to, (const T *)from, s->dim[a], s->to[a], s->dim[b], s->from[b]);
    else
        NAME(copy_plane)((T *)to, (const T *)from, s->dim[a], s->to[a], s->from[a], s->dim[b], s->to[b], s->from[b]);
}
