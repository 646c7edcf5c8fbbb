/* One row of the conversion table: from type FROM (elements of type FROM_ELEMENT, widened by FROM_VALUE) to every
 * type.  Included once per type by convert.c, which defines the names.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#define ROW_NAME2(from, to) from##_##to
#define ROW_NAME(from, to) ROW_NAME2(from, to)

#define FUNCTION(ctype, dtype, text, kind, npy) \
    static void ROW_NAME(FROM, dtype)(void *to, const void *from, int64_t n) \
    { \
        const FROM_ELEMENT *p = from; \
        STORED_##dtype *q = to; \
        for (int64_t i = 0; i < n; i++) \
            q[i] = TO_##dtype(FROM_VALUE(p[i])); \
    }
MX_DTYPES(FUNCTION)
#undef FUNCTION

static const mx_convert_fn ROW_NAME(FROM, row)[MX_DTYPE_END] = {
#define ENTRY(ctype, dtype, text, kind, npy) [dtype] = ROW_NAME(FROM, dtype),
    MX_DTYPES(ENTRY)
#undef ENTRY
};

#undef ROW_NAME
#undef ROW_NAME2
#undef FROM
#undef FROM_ELEMENT
#undef FROM_VALUE
