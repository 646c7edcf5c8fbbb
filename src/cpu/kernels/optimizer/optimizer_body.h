/* The loops of the optimizer updates for element type T: included once per type (see optimizer.c).
 *
 * SPDX-License-Identifier: Apache-2.0 */

#define K(x) ((T)k.x)
#define LIMIT(v, limit) NAME(limited)(v, limit)
#define CLIP(v) LIMIT(v, clip)
#define CLIP_WEIGHT(v) LIMIT(v, clip_weight)

/* NaN passes through. */
static inline T NAME(limited)(T v, T limit)
{
    v = v < -limit ? -limit : v;
    return v > limit ? limit : v;
}

#define STORE_0
#define STORE_1 pa[i] = a;
#define STORE_2 pa[i] = a, pb[i] = b;
#define STORE_3 pa[i] = a, pb[i] = b, pc[i] = c;
#define LOAD_0
#define LOAD_1 T a = pa[i];
#define LOAD_2 T a = pa[i], b = pb[i];
#define LOAD_3 T a = pa[i], b = pb[i], c = pc[i];

/* `to` may be `from` or the gradient; states are separate arrays. */
#define LOOP(id, name, aliases, inputs, states, scalars, ATTRS, prepare, body, ...)                                  \
    static void NAME(loop_##id)(const mx_update_constants *constants, const update_arrays *x, int64_t begin, int64_t end)      \
    {                                                                                                                \
        const mx_update_constants k = *constants;                                                                              \
        const T clip = k.clip_gradient < 0 ? (T)INFINITY : (T)k.clip_gradient;                                       \
        const T clip_weight = k.clip_weights < 0 ? (T)INFINITY : (T)k.clip_weights;                                  \
        const T *from = x->from, *grad = x->grad;                                                                    \
        T *to = x->to, *pa = x->state[0], *pb = x->state[1], *pc = x->state[2];                                      \
        (void)clip, (void)clip_weight, (void)pa, (void)pb, (void)pc;                                                 \
        MX_IVDEP                                                                                                     \
        for (int64_t i = begin; i < end; i++) {                                                                      \
            T w = from[i];                                                                                           \
            const T g = grad[i];                                                                                     \
            LOAD_##states                                                                                            \
            body;                                                                                                    \
            to[i] = w;                                                                                               \
            STORE_##states                                                                                           \
        }                                                                                                            \
    }
MX_UPDATE_ROWS(LOOP)

#define ENTRY(id, ...) [MX_UPDATE_##id] = NAME(loop_##id),
static const update_loop NAME(loops)[MX_UPDATE_COUNT] = {MX_UPDATE_ROWS(ENTRY)};

#undef K
#undef LIMIT
#undef CLIP
#undef CLIP_WEIGHT
#undef STORE_0
#undef STORE_1
#undef STORE_2
#undef STORE_3
#undef LOAD_0
#undef LOAD_1
#undef LOAD_2
#undef LOAD_3
#undef LOOP
#undef ENTRY
