/* NumPy's rules for arrays: which type a result has, and numbers whose type gives way.
 *
 * The functions of NumPy are operators like all others, under the names mx_np_add, mx_np_linalg_norm, mx_np_random_normal ...
 * (<gluon/np.gen.h>).  They differ from the classic ones in their rules: types are promoted, division is true division,
 * comparisons give bool, a reduction over all axes gives a 0-d array.
 *
 *     mx_array *half = mx_np_divide(count, mx_number_int(2));      int32 / 2 -> float32
 *
 * Promotion: floats win over integers and integers over bool, the wider type wins; uint8 with int8 gives int32.  An
 * integer with a float gives that float (NumPy: float64), as deep learning wants it.  A *number* is a 0-d array whose type
 * gives way: a float with integers gives the default float type, else the other operand's type is kept.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_NP_H
#define GLUON_NP_H

#include "gluon/array.h"

/* The type of a result of operands of both types.  MX_DTYPE_NONE is an unknown type: the other one is returned. */
MX_API mx_dtype mx_promote(mx_dtype a, mx_dtype b);
/* The type of a result of these arrays and numbers; MX_DTYPE_NONE if none of them has a known type. */
MX_API mx_dtype mx_result_type(mx_arrays arrays);

/* Numbers; they belong to the scope. */
MX_API mx_array *mx_number_float(double value);
MX_API mx_array *mx_number_int(int64_t value);
MX_API mx_array *mx_number_bool(bool value);
MX_API bool mx_is_number(const mx_array *x);

/* The type of new arrays of floats, per thread: float32, or with `on` float64 as in NumPy.  Returns the previous value. */
MX_API bool mx_set_np_default_dtype(bool on);
MX_API mx_dtype mx_default_float(void);

/* Whether a language binding hands out arrays with NumPy's rules, per thread; C has one kind of array and ignores it.
 * Returns the previous value. */
MX_API bool mx_set_np_array(bool on);
MX_API bool mx_is_np_array(void);

#endif
