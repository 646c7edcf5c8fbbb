/* Loops of every function of the pointwise table for one compute type T; included once per type.
 *
 * NAME(x) adds the type to a name.  With MX_INTEGER_ROWS defined only functions of two arguments are generated, and WIDE is
 * a type in which their results do not overflow (the compiler narrows what it can).
 * Every loop may run in place (out equal to an input).
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define LOOP MX_IVDEP for (int64_t i = 0; i < n; i++)

#ifndef MX_INTEGER_ROWS
#define WIDE T
#define UNARY_LOOP(name, aliases, forward, ...)                     \
    static void NAME(unary_##name)(const T *in, T *out, int64_t n)  \
    {                                                               \
        LOOP                                                        \
        {                                                           \
            T x = in[i];                                            \
            out[i] = (T)(forward);                                  \
        }                                                           \
    }
MX_UNARY_ROWS(UNARY_LOOP)
MX_LINEAR_ROWS(UNARY_LOOP)
MX_STEP_ROWS(UNARY_LOOP)

#define SAVED_X T x = first[i];
#define SAVED_Y T y = first[i];
#define SAVED_XY T x = first[i], y = second[i];
#define BACKWARD_LOOP(name, aliases, forward, looks, gradient, ...)                                             \
    static void NAME(backward_##name)(const T *gs, const T *first, const T *second, T *out, int64_t n)            \
    {                                                                                                             \
        (void)second;                                                                                             \
        LOOP                                                                                                      \
        {                                                                                                         \
            SAVED_##looks __attribute__((unused)) T g = gs[i], t = 0;                                             \
            out[i] = (T)(gradient);                                                                               \
        }                                                                                                         \
    }
MX_UNARY_ROWS(BACKWARD_LOOP)
#undef UNARY_LOOP
#undef BACKWARD_LOOP
#undef SAVED_X
#undef SAVED_Y
#undef SAVED_XY
#endif

/* `step` of an operand is 1, or 0 when it is a single number. */
#define BINARY_LOOPS(id, forward)                                                                                  \
    static void NAME(binary_##id)(const T *pa, int64_t step_a, const T *pb, int64_t step_b, T *out, int64_t n)     \
    {                                                                                                              \
        if (step_a && step_b)                                                                                      \
            LOOP                                                                                                   \
            {                                                                                                      \
                WIDE a = pa[i], b = pb[i];                                                                         \
                out[i] = (T)(forward);                                                                             \
            }                                                                                                      \
        else if (step_a) {                                                                                         \
            const WIDE b = *pb;                                                                                    \
            LOOP                                                                                                   \
            {                                                                                                      \
                WIDE a = pa[i];                                                                                    \
                out[i] = (T)(forward);                                                                             \
            }                                                                                                      \
        } else {                                                                                                   \
            const WIDE a = *pa, b0 = *pb;                                                                          \
            LOOP                                                                                                   \
            {                                                                                                      \
                WIDE b = step_b ? pb[i] : b0;                                                                      \
                out[i] = (T)(forward);                                                                             \
            }                                                                                                      \
        }                                                                                                          \
    }
#define BINARY_ROW_LOOPS(id, en, ea, bn, ba, sn, sa, ki, ko, si, so, forward, ...) BINARY_LOOPS(id, forward)
#define COMPARE_ROW_LOOPS(id, en, ea, bn, ba, sn, sa, forward, ...) BINARY_LOOPS(id, forward)
MX_BINARY_ROWS(BINARY_ROW_LOOPS)
MX_COMPARE_ROWS(COMPARE_ROW_LOOPS)

#define NUMBER_LOOP(name, expression)                                                                               \
    static void NAME(number_##name)(const T *xs, const T *gs, T *out, int64_t n, const double *number)             \
    {                                                                                                              \
        __attribute__((unused)) const T p = (T)number[0], q = (T)number[1], r = (T)number[2];                      \
        LOOP                                                                                                       \
        {                                                                                                          \
            __attribute__((unused)) T x = xs[i], g = gs[i], t = 0;                                                 \
            out[i] = (T)(expression);                                                                              \
        }                                                                                                          \
    }
#ifndef MX_INTEGER_ROWS
MX_NUMBER_ROWS(NUMBER_LOOP)
#elif defined(MX_WIDEST_ROWS)
MX_BOUND_ROWS(NUMBER_LOOP)
#endif
#undef NUMBER_LOOP

#undef BINARY_LOOPS
#undef BINARY_ROW_LOOPS
#undef COMPARE_ROW_LOOPS
#undef LOOP
#undef WIDE
