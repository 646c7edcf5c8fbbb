/* Searching for the best element of type T; a body, included once per type.  NAME(x) adds the type to a name.
 *
 * IS_NAN(v) is given by the includer.  A NaN beats numbers and is beaten by nothing, so the first one wins.
 *
 * SPDX-License-Identifier: Apache-2.0 */

/* One contiguous run: first the value, in vector lanes, then its index. */
static int64_t NAME(search_run)(const T *x, int64_t n, bool least)
{
    enum { LANES = 64 };
    T lane[LANES], best = x[0];
    if (n >= 4 * LANES) {
        memcpy(lane, x, sizeof lane);
        for (int64_t i = LANES; i + LANES <= n; i += LANES)
            for (int k = 0; k < LANES; k++) {
                const T v = x[i + k];
                const bool wins = (least ? v < lane[k] : v > lane[k]) | IS_NAN(v);
                lane[k] = wins ? v : lane[k];
            }
        for (int k = 0; k < LANES; k++)
            best = ((least ? lane[k] < best : lane[k] > best) | IS_NAN(lane[k])) ? lane[k] : best;
    }
    for (int64_t i = n >= 4 * LANES ? n - n % LANES : 1; i < n; i++)
        best = ((least ? x[i] < best : x[i] > best) | IS_NAN(x[i])) ? x[i] : best;
    for (int64_t i = 0; i < n; i++)
        if (x[i] == best || (IS_NAN(best) && IS_NAN(x[i])))
            return i;
    return 0;
}

/* `width` neighbouring columns of n rows, `step` apart. */
static void NAME(search_columns)(const T *x, int64_t n, int64_t step, int64_t width, bool least, int64_t *index)
{
    T best[COLUMNS];
    for (int64_t j = 0; j < width; j++)
        best[j] = x[j], index[j] = 0;
    for (int64_t k = 1; k < n; k++)
        for (int64_t j = 0; j < width; j++) {
            const T v = x[k * step + j];
            const bool wins = (least ? v < best[j] : v > best[j]) | (IS_NAN(v) & !IS_NAN(best[j]));
            best[j] = wins ? v : best[j];
            index[j] = wins ? k : index[j];
        }
}
