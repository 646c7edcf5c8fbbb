/* The loops of all folds for one compute type; a body, included once per type.
 *
 * The includer defines T (elements), A (totals), NAME(x), ADD(p, v), MULTIPLY(p, v), NEGATE(v), IS_NAN(v), LOWEST, HIGHEST,
 * ROOT(t) and AVERAGE(t, count); for the extremes ORDER, an integer type in which numbers are ordered as in T, with
 * TO_ORDER(v), FROM_ORDER(i) and the integers ORDER_MOST and ORDER_LEAST, which represent NaN.  PLAIN_ADD: ADD is +, for
 * vectors, too.
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define FOLD_STRIP 1024   /* columns folded at a time: their parts stay in the first-level cache */
#define FOLD_LANES 64     /* a contiguous run is folded as rows of this many columns */
#define FOLD_BLOCK 128    /* rows that are joined before they are added to the total */
#define FOLD_STREAM 65536 /* elements of a long run that are read as four streams */
#define FOLD_SHORT 12     /* runs that are folded one by one */

#define AS_IS(t, count) (t)
#define PLAIN(v) (v)
#define MAGNITUDE(v) ((v) < 0 ? NEGATE(v) : (v))
#define SQUARE(v) MULTIPLY(v, v)
#define LARGER(p, v) ((((v) > (p)) | IS_NAN(v)) ? (v) : (p)) /* NaN wins over numbers */
#define SMALLER(p, v) ((((v) < (p)) | IS_NAN(v)) ? (v) : (p))

#define FN(x) NAME(x##_sum)
#ifdef PLAIN_ADD
#define PLAIN_SUM
#endif
#define P T
#define IDENTITY 0
#define MAP PLAIN
#define JOIN ADD
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_mean)
#ifdef PLAIN_ADD
#define PLAIN_SUM
#endif
#define P T
#define IDENTITY 0
#define MAP PLAIN
#define JOIN ADD
#define FINISH AVERAGE
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_prod)
#define P A
#define IDENTITY 1
#define MAP PLAIN
#define JOIN MULTIPLY
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_nansum)
#define P T
#define IDENTITY 0
#define MAP(v) (IS_NAN(v) ? 0 : (v))
#define JOIN ADD
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_nanprod)
#define P A
#define IDENTITY 1
#define MAP(v) (IS_NAN(v) ? 1 : (v))
#define JOIN MULTIPLY
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_max)
#define P ORDER
#define IDENTITY LOWEST
#define PART_IDENTITY TO_ORDER(LOWEST)
#define MAP(v) (IS_NAN(v) ? ORDER_MOST : TO_ORDER(v))
#define JOIN(p, v) ((v) > (p) ? (v) : (p))
#define WIDEN(p) FROM_ORDER(p)
#define JOIN_TOTAL LARGER
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_min)
#define P ORDER
#define IDENTITY HIGHEST
#define PART_IDENTITY TO_ORDER(HIGHEST)
#define MAP(v) (IS_NAN(v) ? ORDER_LEAST : TO_ORDER(v))
#define JOIN(p, v) ((v) < (p) ? (v) : (p))
#define WIDEN(p) FROM_ORDER(p)
#define JOIN_TOTAL SMALLER
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_norm1)
#define P T
#define IDENTITY 0
#define MAP MAGNITUDE
#define JOIN ADD
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

/* Squares of large and small floats overflow or underflow: they are joined as totals. */
#define FN(x) NAME(x##_norm2)
#define P A
#define IDENTITY 0
#define MAP(v) MULTIPLY((A)(v), (A)(v))
#define JOIN ADD
#define FINISH(t, count) ROOT(t)
#include "cpu/kernels/reduce/reduce_fold.h"

#define FN(x) NAME(x##_squares)
#define P A
#define IDENTITY 0
#define MAP(v) MULTIPLY((A)(v), (A)(v))
#define JOIN ADD
#define FINISH AS_IS
#include "cpu/kernels/reduce/reduce_fold.h"

#define FOLD_ENTRY(x) {NAME(start_##x), NAME(rows_##x), NAME(runs_##x), NAME(merge_##x), NAME(finish_##x)}
const mx_fold_loops NAME(mx_fold)[MX_FOLDS] = {
    [MX_FOLD_SUM] = FOLD_ENTRY(sum),         [MX_FOLD_MEAN] = FOLD_ENTRY(mean),       [MX_FOLD_PROD] = FOLD_ENTRY(prod),
    [MX_FOLD_NANSUM] = FOLD_ENTRY(nansum),   [MX_FOLD_NANPROD] = FOLD_ENTRY(nanprod), [MX_FOLD_MAX] = FOLD_ENTRY(max),
    [MX_FOLD_MIN] = FOLD_ENTRY(min),         [MX_FOLD_NORM1] = FOLD_ENTRY(norm1),     [MX_FOLD_NORM2] = FOLD_ENTRY(norm2),
    [MX_FOLD_SQUARES] = FOLD_ENTRY(squares),
};
