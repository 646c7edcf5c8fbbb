/* Loads that transpose squares of VL x VL elements: a body, included once per type after
 * gemm_vector.h.
 *
 * A vector is made of lanes of 16 bytes, LANE elements each.  Loading gathers the lanes of rows that are LANE
 * apart into one vector; then it remains to transpose small squares, each within its lane:
 *
 *     rows of a 4-lane float vector:  r | r + 4 | r + 8 | r + 12      r = 0..3
 *
 * SPDX-License-Identifier: Apache-2.0 */

#undef LANE
#define LANE (16 / T_BYTES)

typedef T FN(lane) __attribute__((vector_size(16)));
typedef T FN(lane_any) __attribute__((vector_size(16), aligned(T_BYTES), may_alias));

static inline FN(lane) FN(load_lane)(const T *p) { return *(const FN(lane_any) *)p; }

#if T_BYTES == 4
#define FIRST_8 0, 1, 2, 3, 4, 5, 6, 7
#define FIRST_16 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define JOIN_2(x, y) __builtin_shufflevector(x, y, FIRST_8)
#define JOIN_4(x, y) __builtin_shufflevector(x, y, FIRST_16)
#define LANES_1(a, b, c, d) a, b, c, d
#define LANES_2(a, b, c, d) LANES_1(a, b, c, d), LANES_1(a + 4, b + 4, c + 4, d + 4)
#define LANES_4(a, b, c, d) LANES_2(a, b, c, d), LANES_2(a + 8, b + 8, c + 8, d + 8)
#else
#define JOIN_2(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3)
#define JOIN_4(x, y) __builtin_shufflevector(x, y, 0, 1, 2, 3, 4, 5, 6, 7)
#define LANES_1(a, b) a, b
#define LANES_2(a, b) LANES_1(a, b), LANES_1(a + 2, b + 2)
#define LANES_4(a, b) LANES_2(a, b), LANES_2(a + 4, b + 4)
#endif

/* The lanes at p, p + step, ... as one vector. */
static inline V FN(load_lanes)(const T *p, int64_t step)
{
#if MX_VECTOR_BYTES == 16
    (void)step;
    return FN(load_lane)(p);
#elif MX_VECTOR_BYTES == 32
    return JOIN_2(FN(load_lane)(p), FN(load_lane)(p + step));
#else
    return JOIN_4(JOIN_2(FN(load_lane)(p), FN(load_lane)(p + step)),
                  JOIN_2(FN(load_lane)(p + 2 * step), FN(load_lane)(p + 3 * step)));
#endif
}

#if MX_VECTOR_BYTES == 16
#define EACH_LANE LANES_1
#elif MX_VECTOR_BYTES == 32
#define EACH_LANE LANES_2
#else
#define EACH_LANE LANES_4
#endif

/* Transposes LANE vectors within their lanes. */
static inline __attribute__((always_inline)) void FN(turn_lanes)(V x[LANE])
{
#if T_BYTES == 4
    const V a = __builtin_shufflevector(x[0], x[1], EACH_LANE(0, VL, 1, VL + 1));
    const V b = __builtin_shufflevector(x[0], x[1], EACH_LANE(2, VL + 2, 3, VL + 3));
    const V c = __builtin_shufflevector(x[2], x[3], EACH_LANE(0, VL, 1, VL + 1));
    const V d = __builtin_shufflevector(x[2], x[3], EACH_LANE(2, VL + 2, 3, VL + 3));
    x[0] = __builtin_shufflevector(a, c, EACH_LANE(0, 1, VL, VL + 1));
    x[1] = __builtin_shufflevector(a, c, EACH_LANE(2, 3, VL + 2, VL + 3));
    x[2] = __builtin_shufflevector(b, d, EACH_LANE(0, 1, VL, VL + 1));
    x[3] = __builtin_shufflevector(b, d, EACH_LANE(2, 3, VL + 2, VL + 3));
#else
    const V a = __builtin_shufflevector(x[0], x[1], EACH_LANE(0, VL));
    x[1] = __builtin_shufflevector(x[0], x[1], EACH_LANE(1, VL + 1));
    x[0] = a;
#endif
}

/* x[j] = column j of the VL x VL elements at p, whose rows are `row` apart. */
static inline __attribute__((always_inline)) void FN(load_turned)(V x[VL], const T *p, int64_t row)
{
    UNROLL for (int j = 0; j < VL; j += LANE) {
        UNROLL for (int i = 0; i < LANE; i++)
            x[j + i] = FN(load_lanes)(p + i * row + j, LANE * row);
        FN(turn_lanes)(x + j);
    }
}

#undef FIRST_8
#undef FIRST_16
#undef JOIN_2
#undef JOIN_4
#undef LANES_1
#undef LANES_2
#undef LANES_4
#undef EACH_LANE
