/* Sorting of (key, index) pairs; included once per width of the key, with KEY, PAIR and NAME defined.
 *
 * Pairs start in the order of their indices, so a stable sort by key alone is enough.  A sort that is to be stopped
 * (base/interrupt.h) leaves any pairs behind.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define LESS(a, b) ((a).key < (b).key || ((a).key == (b).key && (a).index < (b).index))

static void NAME(insertion)(PAIR *x, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const PAIR moved = x[i];
        int64_t k = i;
        for (; k > 0 && x[k - 1].key > moved.key; k--)
            x[k] = x[k - 1];
        x[k] = moved;
    }
}

/* Runs of 16, then merged in pairs, alternating between x and spare; the result is in x. */
static void NAME(merge_sort)(PAIR *x, PAIR *spare, int64_t n)
{
    PAIR *from = x, *to = spare;
    for (int64_t i = 0; i < n; i += 16)
        NAME(insertion)(x + i, n - i < 16 ? n - i : 16);
    for (int64_t width = 16; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            const int64_t middle = i + width < n ? i + width : n, end = i + 2 * width < n ? i + 2 * width : n;
            int64_t a = i, b = middle;
            for (int64_t k = i; k < end; k++)
                to[k] = a < middle && (b >= end || from[a].key <= from[b].key) ? from[a++] : from[b++];
        }
        PAIR *swap = from;
        from = to, to = swap;
    }
    if (from != x)
        memcpy(x, from, (size_t)n * sizeof *x);
}

/* Byte by byte from the lowest; bytes that are equal everywhere are skipped. */
static void NAME(radix_sort)(PAIR *x, PAIR *spare, int64_t n)
{
    int64_t count[sizeof(KEY)][256];
    memset(count, 0, sizeof count);
    for (int64_t i = 0; i < n; i++)
        for (size_t b = 0; b < sizeof(KEY); b++)
            count[b][x[i].key >> 8 * b & 255]++;
    PAIR *from = x, *to = spare;
    for (size_t b = 0; b < sizeof(KEY); b++) {
        if (count[b][from[0].key >> 8 * b & 255] == n)
            continue;
        int64_t start[256], sum = 0;
        for (int d = 0; d < 256; d++) {
            start[d] = sum;
            sum += count[b][d];
        }
        for (int64_t at = 0; at < n && !mx_stop_wanted(); at += AT_ONCE)
            for (int64_t i = at; i < n && i < at + AT_ONCE; i++)
                to[start[from[i].key >> 8 * b & 255]++] = from[i];
        PAIR *swap = from;
        from = to, to = swap;
    }
    if (from != x)
        memcpy(x, from, (size_t)n * sizeof *x);
}

static void NAME(sort)(PAIR *x, PAIR *spare, int64_t n)
{
    if (n <= 24)
        NAME(insertion)(x, n);
    else if (n < 200)
        NAME(merge_sort)(x, spare, n);
    else
        NAME(radix_sort)(x, spare, n);
}

/* Sifts the root of a max-heap down. */
static void NAME(sift)(PAIR *heap, int64_t n, PAIR moved)
{
    int64_t at = 0;
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && LESS(heap[child], heap[child + 1]))
            child++;
        if (!LESS(moved, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* Moves the k smallest of x, sorted, to its beginning.  A heap of k pairs holds the best so far; most elements are
 * rejected by one comparison with its largest. */
static void NAME(select)(PAIR *x, PAIR *spare, int64_t n, int64_t k)
{
    if (k > n / 8 || k > 4096) {
        NAME(sort)(x, spare, n);
        return;
    }
    NAME(sort)(x, spare, k);
    for (int64_t i = 0; i < k; i++)
        spare[i] = x[k - 1 - i]; /* descending order is a heap */
    for (int64_t at = k; at < n && !mx_stop_wanted(); at += AT_ONCE)
        for (int64_t i = at; i < n && i < at + AT_ONCE; i++)
            if (x[i].key < spare[0].key)
                NAME(sift)(spare, k, x[i]);
    for (int64_t left = k; left > 0; left--) {
        x[left - 1] = spare[0];
        NAME(sift)(spare, left - 1, spare[left - 1]);
    }
}
#undef LESS
