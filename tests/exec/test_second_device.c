/* Plans on a second device: the numbers of the CPU, imperatively, hybridized and as fused steps.
 *
 * The device is the one below: host memory that only kernels and copies can access, and the CPU's kernels, as mx_gpu(0).  Its
 * capturer saves the calls that are made while it captures, and runs them later in an order of its own that respects only the
 * declared reads and writes; so a missing dependency shows as wrong numbers.
 *
 * ctest-levels: best (what is tested is order)
 *
 * ctest-timeout: 900
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <sys/mman.h>

#include "base/error.h"
#include "block_check.h"
#include "ndarray/device.h"
#include "ndarray/lane.h"
#include "op/op.h"

enum { STEPS = 7, BATCH = 4 };

static int captures, runs, corrected;

/* ---- memory ---------------------------------------------------------------------------------------------------------- */
/* Only kernels and copies may access it: the process would end otherwise. */

#define PAGE ((size_t)4096)
#define MEMORY ((size_t)64 << 30) /* reserved; what is freed is returned to the system and not reused */

static char *memory;
static size_t used;

static bool guarded; /* slow in large networks */

static void open_memory(bool open)
{
    if (used && (guarded || open))
        mprotect(memory, used, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* ---- captured calls ------------------------------------------------------------------------------------------------ */

typedef struct kept_call {
    mx_kernel_call call;
    mx_array *arrays;    /* headers as they were */
    mx_storage *storage; /* (arrays) */
    mx_array **lists;
    void *attrs;
    int n;
} kept_call;

typedef struct kept_part {
    kept_call *calls;
    int n_calls;
    mx_touch *touches;
    int64_t n_touches;
    bool done;
} kept_part;

struct mx_capture {
    kept_part *parts;
    int n_parts, correcting;
};

static _Thread_local struct mx_capture *capturer;

static void drop_calls(kept_part *p)
{
    for (int c = 0; c < p->n_calls; c++) {
        free(p->calls[c].arrays), free(p->calls[c].storage), free(p->calls[c].lists), free(p->calls[c].attrs);
    }
    free(p->calls);
    p->calls = NULL, p->n_calls = 0;
}

static kept_part *current(struct mx_capture *r)
{
    if (r->correcting >= 0)
        return &r->parts[r->correcting];
    return &r->parts[r->n_parts]; /* the one after the last mark */
}

static void keep(const mx_kernel_call *call)
{
    kept_part *p = current(capturer);
    p->calls = realloc(p->calls, (size_t)(p->n_calls + 1) * sizeof *p->calls);
    kept_call *k = &p->calls[p->n_calls++];
    const int n = call->n_in + call->n_out;
    const size_t bytes = call->op->schema ? call->op->schema->size : 0;
    *k = (kept_call){.call = *call, .n = n};
    k->arrays = calloc((size_t)n + 1, sizeof *k->arrays);
    k->storage = calloc((size_t)n + 1, sizeof *k->storage);
    k->lists = calloc((size_t)n + 1, sizeof *k->lists);
    k->attrs = malloc(bytes + 1);
    if (bytes)
        memcpy(k->attrs, call->attrs, bytes);
    for (int i = 0; i < n; i++) {
        const mx_array *x = i < call->n_in ? call->in[i] : call->out[i - call->n_in];
        k->lists[i] = x == MX_NONE ? MX_NONE : &k->arrays[i];
        if (x == MX_NONE)
            continue;
        k->arrays[i] = *x;
        if (x->storage) {
            k->storage[i] = *x->storage;
            k->arrays[i].storage = &k->storage[i];
        }
    }
    k->call.in = k->lists, k->call.out = k->lists + call->n_in;
    k->call.attrs = bytes ? k->attrs : call->attrs;
}

static mx_code run_on_cpu(const mx_kernel_call *call)
{
    mx_code code = MX_DECLINED;
    open_memory(true);
    for (int i = 0; code == MX_DECLINED && i < MX_MAX_KERNELS && call->op->kernels[MX_CPU][i]; i++)
        code = mx_kernel_run(call->op->kernels[MX_CPU][i], call);
    open_memory(false);
    return code;
}

static const char *looked_for; /* an operator to count, or NULL */
static int seen;               /* calls of it */
static const char *fails;      /* an operator whose kernel fails, or NULL */

static mx_code run_kernel(const mx_kernel_call *call)
{
    seen += looked_for && !strcmp(call->op->name, looked_for);
    if (fails && !strcmp(call->op->name, fails))
        return mx_fail(MX_ERR_DEVICE, "%s failed", fails);
    if (!capturer)
        return run_on_cpu(call);
    keep(call);
    return MX_OK;
}

static mx_code run_many(int n, const mx_kernel_call *first, size_t stride)
{
    mx_code code = MX_OK;
    for (int i = n - 1; !code && i >= 0; i--) /* they are independent */
        code = run_kernel(mx_call_at(first, stride, i));
    return code;
}

/* ---- the capturer ---------------------------------------------------------------------------------------------------- */

static mx_capture *begin(mx_context context)
{
    (void)context;
    capturer = calloc(1, sizeof *capturer);
    capturer->parts = calloc(1, sizeof *capturer->parts);
    capturer->correcting = -1;
    captures++;
    return capturer;
}

static mx_code mark(mx_capture *r, int64_t n, const mx_touch *touches)
{
    kept_part *p = &r->parts[r->n_parts++];
    p->touches = malloc((size_t)(n + 1) * sizeof *touches);
    memcpy(p->touches, touches, (size_t)n * sizeof *touches);
    p->n_touches = n;
    r->parts = realloc(r->parts, (size_t)(r->n_parts + 1) * sizeof *r->parts);
    r->parts[r->n_parts] = (kept_part){0};
    return MX_OK;
}

static mx_code end(mx_capture *r) { return r == capturer ? (capturer = NULL, MX_OK) : MX_ERR_STATE; }

static mx_code begin_part(mx_capture *r, int part)
{
    r->correcting = part;
    drop_calls(&r->parts[part]);
    capturer = r;
    corrected++;
    return MX_OK;
}

static mx_code end_part(mx_capture *r)
{
    r->correcting = -1;
    capturer = NULL;
    return MX_OK;
}

static bool conflict(const kept_part *a, const kept_part *b)
{
    for (int64_t i = 0; i < a->n_touches; i++)
        for (int64_t k = 0; k < b->n_touches; k++) {
            const mx_touch *x = &a->touches[i], *y = &b->touches[k];
            if ((x->written || y->written) && (const char *)x->at < (const char *)y->at + y->bytes &&
                (const char *)y->at < (const char *)x->at + x->bytes)
                return true;
        }
    return false;
}

/* The last part without dependencies runs first. */
static int next_part(const mx_capture *r)
{
    for (int i = r->n_parts - 1; i >= 0; i--) {
        bool waits = r->parts[i].done;
        for (int k = 0; !waits && k < i; k++)
            waits = !r->parts[k].done && conflict(&r->parts[i], &r->parts[k]);
        if (!waits)
            return i;
    }
    return -1;
}

static mx_code run(mx_capture *r)
{
    mx_code code = MX_OK;
    for (int i = 0; i < r->n_parts; i++)
        r->parts[i].done = false;
    for (int i; !code && (i = next_part(r)) >= 0; r->parts[i].done = true)
        for (int c = 0; !code && c < r->parts[i].n_calls; c++)
            code = run_on_cpu(&r->parts[i].calls[c].call);
    runs++;
    return code;
}

static void free_capture(mx_capture *r)
{
    for (int i = 0; i <= r->n_parts; i++) {
        drop_calls(&r->parts[i]);
        free(r->parts[i].touches);
    }
    free(r->parts);
    free(r);
}

static const mx_capturer host_capturer = {begin, mark, end, begin_part, end_part, run, free_capture};

/* ---- the device ------------------------------------------------------------------------------------------------------- */

static int count(void) { return 1; }

static bool broken; /* copies fail */

static void *allocate(mx_context context, size_t bytes)
{
    (void)context;
    const size_t size = (bytes + PAGE - 1) / PAGE * PAGE;
    if (used + size > MEMORY)
        return mx_fail(MX_ERR_MEMORY, "the second device is full"), NULL;
    used += size;
    return memory + used - size;
}

static void release(mx_context context, void *given, size_t bytes)
{
    (void)context;
    madvise(given, (bytes + PAGE - 1) / PAGE * PAGE, MADV_DONTNEED);
}

static mx_code copy(mx_context context, void *to, const void *from, size_t bytes)
{
    (void)context;
    if (broken)
        return mx_fail(MX_ERR_DEVICE, "the second device is broken");
    open_memory(true);
    memmove(to, from, bytes);
    open_memory(false);
    return MX_OK;
}
static void wait_for(mx_context context) { (void)context; }

static void attach_kernels(void)
{
    static mx_kernel any[1024]; /* entries name their operator */
    static bool attached;
    int n = 0;
    mx_cpu_device->attach_kernels();
    for (mx_op *const *family = mx_op_families; !attached && *family; family++)
        for (mx_op *op = *family; op->name; op++)
            if (op->kernels[MX_CPU][0] && !op->kernels[MX_GPU][0] && n < 1024) {
                any[n] = (mx_kernel){.op = op->name, .run = run_kernel};
                mx_op_attach(MX_GPU, &any[n++]);
                if (strstr(op->name, "_update"))
                    mx_op_attach_many(MX_GPU, op->name, run_many);
            }
    attached = true;
}

#define ALL_OF_IT (MX_CAN_CHANNELS_LAST | MX_CAN_NORM_PARTS | MX_CAN_RECOMPUTE | MX_CAN_JOIN_RELU_GRADIENT | \
                   MX_CAN_JOIN_BIAS | MX_CAN_CHAIN_NARROW | MX_CAN_OVERLAP | MX_CAN_ROUND_ANEW | \
                   MX_CAN_FUSE_ATTENTION | MX_CAN_FUSE_EPILOGUE | MX_CAN_ALIGN_ROWS)
static mx_device device = {.name = "gpu", .type = MX_GPU, .can = ALL_OF_IT, .count = count, .alloc = allocate, .free = release,
                           .copy = copy, .to_host = copy, .from_host = copy, .wait = wait_for,
                           .capturer = &host_capturer, .attach_kernels = attach_kernels};

/* These replace the functions that load the CUDA library. */
mx_device *mx_gpu_device(const char **why)
{
    if (!memory)
        memory = mmap(NULL, MEMORY, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *why = memory == MAP_FAILED ? "no room" : "";
    return memory == MAP_FAILED ? NULL : &device;
}
const mx_lanes *mx_gpu_lanes(void) { return NULL; }

/* ---- training ------------------------------------------------------------------------------------------------------------ */

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .activation = "relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                mx_conv2d(8, MX_DIMS(3, 3)), mx_batch_norm(), mx_activation("relu"), mx_flatten(),
                                mx_dense(16, .activation = "relu"), mx_dropout(0.5), mx_dense(10));
}

static mx_block *residual(void) { return mx_model("resnet18_v1", .classes = 10); }

enum mode { IMPERATIVE, HYBRIDIZED, WHOLE };

typedef struct trained {
    double losses[STEPS];
    mx_block *net;
} trained;

static mx_array *there(mx_array *x, mx_context context) { return mx_array_to(x, context); }

static trained train(mx_block *(*make)(void), mx_dims shape, mx_context context, enum mode mode, bool moves)
{
    const bool is_small = shape.d[1] == 1; /* deep networks amplify rounding errors: small steps */
    trained t = {.net = make()};
    mx_block *loss = mx_softmax_cross_entropy_loss();
    mx_random_seed(3);
    mx_initialize(t.net, mx_xavier(), context);
    if (mode != IMPERATIVE)
        mx_hybridize(t.net);
    mx_array *x[STEPS], *y[STEPS];
    for (int i = 0; i < STEPS; i++) {
        mx_random_seed(moves ? 100 + (uint64_t)i : 100);
        x[i] = there(mx_random_normal(.shape = shape, .ctx = mx_cpu(0)), context);
        y[i] = there(check_integers(MX_DIMS(BATCH), moves ? i : 0, 10), context);
    }
    mx_call(t.net, x[0]);
    mx_optimizer *o = mx_optimizer_new("sgd", is_small ? "learning_rate=0.02, momentum=0.9" : "learning_rate=0.0005");
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(t.net), o);
    mx_train_step *step = mx_train_step_new(t.net, loss, trainer);
    check_no_error();
    mx_random_seed(7);
    for (int i = 0; i < STEPS; i++) {
        mx_array *value = NULL, *data = x[moves ? i : 0], *label = y[moves ? i : 0];
        if (mode == WHOLE) {
            value = mx_train_step_run(step, data, label);
        } else {
            mx_record()
                value = mx_call(loss, mx_call(t.net, data), label);
            mx_backward(value);
            mx_trainer_step(trainer, BATCH);
        }
        check_no_error();
        const double *v = check_values(there(value, mx_cpu(0)));
        for (int k = 0; k < BATCH; k++)
            t.losses[i] += v[k];
        if (i == STEPS / 2)
            mx_optimizer_set_learning_rate(o, is_small ? 0.005 : 0.0002);
    }
    return t;
}

static void compare(mx_block *(*make)(void), mx_dims shape, double tolerance, bool is_captured)
{
    for (int moves = 0; moves < 2; moves++) {
        MX_SCOPE;
        const trained want = train(make, shape, mx_cpu(0), IMPERATIVE, moves);
        for (enum mode mode = IMPERATIVE; mode <= WHOLE; mode++) {
            const int before = runs;
            const trained got = train(make, shape, mx_gpu(0), mode, moves);
            for (int i = 0; i < STEPS; i++)
                if (fabs(got.losses[i] - want.losses[i]) > tolerance * fabs(want.losses[i]))
                    fail_msg("mode %d, moves %d: loss %d is %.9g, on the CPU %.9g", mode, moves, i, got.losses[i],
                             want.losses[i]);
            if (is_captured)
                assert_true(mode == IMPERATIVE ? runs == before : runs >= before + STEPS - 2);
        }
    }
}

static void test_small_network(void **state)
{
    (void)state;
    guarded = true;
    compare(lenet, MX_DIMS(BATCH, 1, 14, 14), 2e-4, true);
    guarded = false;
    assert_true(captures > 0 && corrected > 0);
}

static void test_residual_network(void **state)
{
    (void)state;
    compare(residual, MX_DIMS(BATCH, 3, 40, 40), 1e-2, true);
}

/* Images under windows with a stride of 2, whose pixels become channels. */
static const struct window {
    mx_dims kernel, pad, shape;
} windows[] = {{{2, {7, 7}}, {2, {3, 3}}, {4, {BATCH, 3, 16, 18}}},
               {{2, {3, 3}}, {2, {1, 1}}, {4, {BATCH, 3, 15, 12}}},
               {{2, {5, 2}}, {2, {0, 1}}, {4, {BATCH, 1, 13, 14}}},
               {{2, {4, 6}}, {2, {2, 0}}, {4, {BATCH, 4, 10, 9}}}};
static const struct window *window;

static mx_block *strided(void)
{
    mx_block *first = mx_conv2d(8, window->kernel, .strides = MX_DIMS(2, 2), .padding = window->pad);
    return mx_hybrid_sequential(first, mx_batch_norm(), mx_activation("relu"), mx_flatten(), mx_dense(10));
}

static void test_pictures(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        window = &windows[i];
        compare(strided, window->shape, 2e-4, true);
    }
}

/* relu before and after max pooling, and between dense layers. */
static mx_block *pooled(void)
{
    return mx_hybrid_sequential(mx_conv2d(5, MX_DIMS(3, 3), .activation = "relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                mx_conv2d(8, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
                                mx_batch_norm(), mx_activation("relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                mx_dense(20, .activation = "relu"), mx_dense(12, .activation = "relu"), mx_dense(10));
}

static void test_gradients_of_relu(void **state)
{
    (void)state;
    compare(pooled, MX_DIMS(BATCH, 1, 18, 18), 2e-4, true);
}

/* The gradient of a bias joins that of its own layer's weight, not that of a layer without bias before it. */
static mx_block *partly_biased(void) { return mx_hybrid_sequential(mx_dense(10), mx_dense(10, .use_bias = false)); }

static void test_gradients_of_biases(void **state)
{
    (void)state;
    compare(partly_biased, MX_DIMS(BATCH, 1, 14, 14), 2e-4, false);
}

/* Attention whose queries and keys read a copy of the data: their gradients are added first, then that of the values. */
static mx_array *attend_to_a_copy(mx_block *self, mx_arrays in)
{
    mx_array *x = mx_call(mx_block_child_at(self, 0), mx_reshape(in.v[0], .shape = MX_DIMS(0, 14, 14))),
             *y = mx_copy(x);
    mx_array *query = mx_call(mx_block_child_at(self, 1), y), *key = mx_call(mx_block_child_at(self, 2), y);
    mx_array *value = mx_call(mx_block_child_at(self, 3), x);
    return mx_call(mx_block_child_at(self, 4), mx_attention(query, .key = key, .value = value, .heads = 2));
}

static mx_block *with_a_copy(void)
{
    static const char *const names[] = {"in", "query", "key", "value"};
    mx_block *net = mx_block_new("Attention", attend_to_a_copy, .hybrid = true);
    for (int i = 0; i < 4; i++)
        mx_block_child(net, names[i], mx_dense(8, .flatten = false));
    mx_block_child(net, "out", mx_dense(10));
    return net;
}

static void test_gradients_of_roles(void **state)
{
    (void)state;
    compare(with_a_copy, MX_DIMS(BATCH, 1, 14, 14), 2e-4, false);
}

/* What a plan keeps of its parameters is computed again after a run in which that failed. */
static void test_failing_preparations(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3)), mx_batch_norm(), mx_dense(3));
    mx_initialize(net, mx_xavier(), mx_gpu(0));
    mx_array *x = there(mx_random_normal(.shape = MX_DIMS(BATCH, 3, 6, 6), .ctx = mx_cpu(0)), mx_gpu(0));
    mx_call(net, x);
    mx_hybridize(net);
    mx_array *first = there(mx_call(net, x), mx_cpu(0));
    mx_array *gamma = mx_parameter_data(mx_params_at(mx_collect_params(net), 2), mx_gpu(0));
    mx_array_fill(gamma, 3);
    fails = "_fold_norm";
    assert_null(mx_call(net, x));
    check_error(MX_ERR_DEVICE, "_fold_norm failed");
    fails = NULL;
    mx_array *again = there(mx_call(net, x), mx_cpu(0));
    mx_hybridize_with(net, &(struct mx_hybridize_options){.active = false});
    check_near(again, MX_DIMS(BATCH, 3), check_values(there(mx_call(net, x), mx_cpu(0))), 1e-4);
    assert_true(fabs(check_values(again)[0] - check_values(first)[0]) > 1e-3);
}

/* Without a capability of the device its pass does not run: the operator is not called, the numbers stay the same. */
static mx_block *of_everything(void)
{
    return mx_hybrid_sequential(mx_conv2d(8, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2)), mx_batch_norm(),
                                mx_activation("relu"), mx_conv2d(4, MX_DIMS(3, 3)), mx_flatten(),
                                mx_dense(20, .activation = "relu"), mx_dense(10));
}

/* Attention as old programs write it: self-attention on interleaved projections, attention to another sequence, products of
 * batches. */
static mx_array *attend_classically(mx_block *self, mx_arrays in)
{
    mx_array *x =
        mx_transpose(mx_reshape(in.v[0], .shape = MX_DIMS(0, 14, 14)), .axes = MX_DIMS(1, 0, 2)); /* (T, N, C) */
    mx_array *both = mx_call(mx_block_child_at(self, 0), x), *keys = mx_call(mx_block_child_at(self, 1), x);
    mx_array *y = mx_interleaved_matmul_selfatt_valatt(
        both, mx_softmax(mx_interleaved_matmul_selfatt_qk(both, .heads = 2), .axis = -1), .heads = 2); /* (T, N, 8) */
    y = mx_interleaved_matmul_encdec_valatt(
        keys, mx_softmax(mx_interleaved_matmul_encdec_qk(y, keys, .heads = 2), .temperature = 2), .heads = 2);
    y = mx_transpose(y, .axes = MX_DIMS(1, 0, 2));
    y = mx_batch_dot(mx_softmax(mx_div_scalar(mx_batch_dot(y, y, .transpose_b = true), .scalar = 3)), y);
    return mx_call(mx_block_child_at(self, 2), y);
}

static mx_block *classic_attention(void)
{
    mx_block *net = mx_block_new("Classic", attend_classically, .hybrid = true);
    mx_block_child(net, "self", mx_dense(24, .flatten = false));
    mx_block_child(net, "cross", mx_dense(16, .flatten = false));
    mx_block_child(net, "out", mx_dense(10));
    return net;
}

/* gelu between dense layers, of matrices and of sequences */
static mx_array *expand_and_shrink(mx_block *self, mx_arrays in)
{
    mx_array *x = mx_reshape(in.v[0], .shape = MX_DIMS(0, 14, 14));
    for (int i = 0; i < 4; i += 2)
        x = mx_call(mx_block_child_at(self, i + 1),
                    mx_op_leaky_relu(mx_call(mx_block_child_at(self, i), x), .act_type = MX_LEAKY_RELU_GELU));
    return x;
}

static mx_block *with_gelu(void)
{
    mx_block *net = mx_block_new("Gelu", expand_and_shrink, .hybrid = true);
    mx_block_child(net, "wide", mx_dense(24, .flatten = false));
    mx_block_child(net, "narrow", mx_dense(6, .flatten = false));
    mx_block_child(net, "last", mx_dense(16));
    mx_block_child(net, "out", mx_dense(10));
    return net;
}

/* scores of many classes, whose number is odd */
static mx_block *many_classes(void) { return mx_hybrid_sequential(mx_dense(6), mx_dense(1029)); }

static const struct {
    uint32_t capability;
    const char *op; /* which its pass creates */
    mx_block *(*network)(void);
} shown[] = {{MX_CAN_CHANNELS_LAST, "_pixel_blocks", of_everything},
             {MX_CAN_NORM_PARTS, "_norm_apply", of_everything},
             {MX_CAN_JOIN_RELU_GRADIENT, "_dot_relu_grad", of_everything},
             {MX_CAN_JOIN_BIAS, "_dense_gradients", of_everything},
             {MX_CAN_RECOMPUTE, "_gelu_gradients", with_gelu},
             {MX_CAN_ALIGN_ROWS, "Pad", many_classes},
             {MX_CAN_FUSE_ATTENTION, "_backward_attention", classic_attention}};

static void test_capabilities(void **state)
{
    (void)state;
    const mx_dims shape = MX_DIMS(BATCH, 1, 14, 14);
    MX_SCOPE;
    for (size_t i = 0; i < sizeof shown / sizeof *shown; i++) {
        const trained want = train(shown[i].network, shape, mx_cpu(0), IMPERATIVE, false);
        for (int lacks = 0; lacks < 2; lacks++) {
            device.can = lacks ? ALL_OF_IT & ~shown[i].capability : ALL_OF_IT;
            looked_for = shown[i].op, seen = 0;
            const trained got = train(shown[i].network, shape, mx_gpu(0), WHOLE, false);
            looked_for = NULL, device.can = ALL_OF_IT;
            if ((seen > 0) == lacks)
                fail_msg("%s ran %d times on a device that %s", shown[i].op, seen, lacks ? "cannot" : "can");
            for (int k = 0; k < STEPS; k++)
                if (fabs(got.losses[k] - want.losses[k]) > 2e-4 * fabs(want.losses[k]))
                    fail_msg("%s, lacks %d: loss %d is %.9g, on the CPU %.9g", shown[i].op, lacks, k, got.losses[k],
                             want.losses[k]);
        }
    }
}

/* A device that has no capability at all, or that of the CPU, computes what the CPU does: the same bits. */
static void test_no_capability(void **state)
{
    (void)state;
    const mx_dims shape = MX_DIMS(BATCH, 1, 14, 14);
    MX_SCOPE;
    const trained want = train(of_everything, shape, mx_cpu(0), IMPERATIVE, false);
    for (int limits = 0; limits < 2; limits++)
        for (enum mode mode = IMPERATIVE; mode <= WHOLE; mode++) {
            device.can = limits ? MX_CAN_LIMIT_NORM : 0;
            const trained got = train(of_everything, shape, mx_gpu(0), mode, false);
            for (int k = 0; k < STEPS; k++)
                if (got.losses[k] != want.losses[k])
                    fail_msg("mode %d: loss %d is %.9g, on the CPU %.9g", mode, k, got.losses[k], want.losses[k]);
        }
    device.can = ALL_OF_IT;
}

/* ---- predictions ------------------------------------------------------------------------------------------------------- */

/* Limits, residuals, limits after pooling; a convolution whose result is read by several steps, sums with arrays of other
 * shapes. */
static mx_array *end_in_many_ways(mx_block *self, mx_arrays in)
{
    mx_array *of[7] = {in.v[0]};
#define CONV(i, x) (of[i] = mx_call(mx_block_child_at(self, i), x))
    mx_array *x = mx_clip(CONV(0, in.v[0]), .a_min = 0, .a_max = 0.75); /* (N, 8, 10, 10) */
    x = mx_relu(mx_elemwise_add(x, CONV(1, x)));
    x = mx_clip(CONV(2, x), .a_min = -0.5, .a_max = 0.5);
    x = mx_elemwise_add(CONV(3, x), mx_tanh(of[3]));
    x = mx_relu(mx_call(mx_block_child_at(self, 7), CONV(4, x))); /* (N, 8, 5, 5) */
    x = mx_relu(mx_add(CONV(5, x), mx_mean(x, .axis = MX_DIMS(2, 3), .keepdims = true)));
    x = mx_relu(CONV(6, x));
#undef CONV
    return mx_concat(MX_ARRAYS(mx_op_flatten(x), mx_op_flatten(of[3])), .dim = 1);
}

static mx_block *of_endings(void)
{
    static const mx_dims three = {2, {3, 3}}, one = {2, {1, 1}};
    mx_block *net = mx_block_new("Endings", end_in_many_ways, .hybrid = true);
    for (int i = 0; i < 7; i++) {
        char name[16];
        snprintf(name, sizeof name, "conv%d", i);
        mx_block_child(net, name,
                       i % 2 ? mx_conv2d(8, one) : mx_conv2d(8, three, .padding = one, .groups = i == 2 ? 8 : 1));
    }
    mx_block_child(net, "pool", mx_max_pool2d(MX_DIMS(2, 2)));
    return net;
}

static mx_array *predicted(mx_context context, bool hybridized)
{
    mx_block *net = of_endings();
    mx_random_seed(5);
    mx_initialize(net, mx_uniform(0.7), context);
    mx_array *x = there(mx_random_normal(.shape = MX_DIMS(BATCH, 8, 10, 10), .ctx = mx_cpu(0)), context),
             *y = mx_call(net, x);
    if (hybridized)
        mx_hybridize(net);
    for (int i = 0; i < 4; i++) /* the first ones are launched, the others replayed */
        y = mx_call(net, x);
    return there(y, mx_cpu(0));
}

static int calls_of(const char *op, bool can)
{
    MX_SCOPE;
    device.can = can ? ALL_OF_IT : ALL_OF_IT & ~MX_CAN_FUSE_EPILOGUE;
    const double *want = check_values(predicted(mx_cpu(0), false));
    looked_for = NULL;
    mx_array *y = predicted(mx_gpu(0), false);
    looked_for = op, seen = 0;
    y = predicted(mx_gpu(0), true);
    looked_for = NULL, device.can = ALL_OF_IT;
    check_no_error();
    const double *got = check_values(y);
    for (int64_t i = 0; i < mx_size(y); i++)
        if (fabs(got[i] - want[i]) > 1e-5)
            fail_msg("%s, can %d: element %d is %.9g, on the CPU %.9g", op, can, (int)i, got[i], want[i]);
    return seen;
}

static void test_endings(void **state)
{
    (void)state;
    assert_int_equal(calls_of("_convolution_fused", false), 0);
    const int convolutions = calls_of("_convolution_fused", true);
    assert_true(convolutions > 0 && convolutions % 7 == 0);
    assert_true(calls_of("clip", false) > calls_of("clip", true));
}

/* Elements are set on the device: from there, from the host, from other types, repeated to the shape. */
static void test_setting(void **state)
{
    (void)state;
    MX_SCOPE;
    const float row[] = {1, -2, 3}, table[] = {1, 2, 3, 4, 5, 6};
    for (int from = 0; from < 2; from++)
        for (int type = 0; type < 3; type++) {
            const mx_dtype dtype = type == 0 ? MX_FLOAT32 : type == 1 ? MX_INT32 : MX_FLOAT64;
            mx_array *x = mx_empty(MX_DIMS(2, 3), MX_FLOAT32, mx_gpu(0)),
                     *y = mx_empty(MX_DIMS(2, 3), MX_FLOAT32, mx_gpu(0));
            mx_array *one = mx_cast(mx_array_from(MX_DIMS(3), MX_FLOAT32, row), .dtype = dtype);
            mx_array *all = mx_cast(mx_array_from(MX_DIMS(2, 3), MX_FLOAT32, table), .dtype = dtype);
            assert_int_equal(mx_array_set(x, there(one, from ? mx_gpu(0) : mx_cpu(0))), MX_OK);
            assert_int_equal(mx_array_set(y, there(all, from ? mx_gpu(0) : mx_cpu(0))), MX_OK);
            check_no_error();
            check_near(there(x, mx_cpu(0)), MX_DIMS(2, 3), (double[]){1, -2, 3, 1, -2, 3}, 0);
            check_near(there(y, mx_cpu(0)), MX_DIMS(2, 3), (double[]){1, 2, 3, 4, 5, 6}, 0);
            mx_array *second = mx_np_take(y, mx_number_int(1), .axis = 0); /* the number follows the array */
            check_near(there(second, mx_cpu(0)), MX_DIMS(3), (double[]){4, 5, 6}, 0);
        }
    size_t now = 0, most = 0;
    assert_int_equal(mx_memory_used(mx_gpu(0), &now, &most), MX_ERR_UNSUPPORTED);
    check_error(MX_ERR_UNSUPPORTED, "gpu");
    assert_int_equal(mx_memory_info(mx_gpu(0), &now, &most), MX_ERR_UNSUPPORTED);
    check_error(MX_ERR_UNSUPPORTED, "gpu");
    assert_int_equal(mx_memory_used(mx_gpu(0), NULL, &most), MX_ERR_ARGUMENT);
    check_error(MX_ERR_ARGUMENT, "now is NULL");
}

/* A copy that fails is an error and leaves nothing behind. */
static void test_failing_copies(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_array *x = there(check_array(MX_DIMS(2, 3), 1), mx_gpu(0)), *host = check_integers(MX_DIMS(3), 1, 5);
    int64_t live = 0;
    for (int round = 0; round < 8; round++) /* caches may grow in the first four */
        mx_scoped() {
            const int kind = round % 4;
            live = round == 4 ? mx_alloc_get_stats().live_blocks : live;
            broken = true;
            if (kind < 3)
                assert_null(kind == 0   ? mx_array_copy(x)
                            : kind == 1 ? mx_array_to(x, mx_cpu(0))
                                        : mx_array_to(host, mx_gpu(0)));
            else
                assert_int_not_equal(mx_array_set(x, host), MX_OK);
            broken = false;
            check_error(MX_ERR_DEVICE, "broken");
        }
    assert_int_equal(mx_alloc_get_stats().live_blocks, live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_setting), cmocka_unit_test(test_failing_copies), cmocka_unit_test(test_small_network), cmocka_unit_test(test_residual_network),
                                       cmocka_unit_test(test_pictures), cmocka_unit_test(test_gradients_of_relu),
                                       cmocka_unit_test(test_gradients_of_biases),
                                       cmocka_unit_test(test_gradients_of_roles),
                                       cmocka_unit_test(test_failing_preparations),
                                       cmocka_unit_test(test_capabilities), cmocka_unit_test(test_no_capability),
                                       cmocka_unit_test(test_endings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
