/* What the passes make of small networks: for every network, on devices with different capabilities, predicting,
 * training and as a fused step.
 *
 * tests/pass/programs.gen.txt has a line per program: a hash of its steps, attributes, shapes and places in memory, the
 * bytes of its arena, and how often each operator occurs.  So a pass that joins more or fewer steps than before is
 * noticed; that the programs compute the right numbers is checked elsewhere (test_pass.c, exec/test_second_device.c,
 * test_gpu*.py).  After an intended change:
 *
 *     test_pass_programs -w        writes the file again; look at the difference
 *
 * The device is a fake: its kernels do nothing.  ctest-levels: best
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"
#include "block_check.h"
#include "gluon/compile/hybrid.h"
#include "ndarray/lane.h"
#include "op/op.h"

#define FILE_NAME GLUON_SOURCE_DIR "/tests/pass/programs.gen.txt"
enum { BATCH = 4, MOST_LINE = 4096, MOST_STEPS = 4096 };

/* ---- a device that computes nothing ------------------------------------------------------------------------------- */

static int count(void) { return 1; }
static void *allocate(mx_context context, size_t bytes)
{
    (void)context;
    return calloc(1, bytes + 64);
}
static void release(mx_context context, void *given, size_t bytes)
{
    (void)context, (void)bytes;
    free(given);
}
static mx_code copy(mx_context context, void *to, const void *from, size_t bytes)
{
    (void)context;
    memmove(to, from, bytes);
    return MX_OK;
}
static void wait_for(mx_context context) { (void)context; }
static mx_code do_nothing(const mx_kernel_call *call)
{
    (void)call;
    return MX_OK;
}
static int block_of_8(void) { return 8; }

static void attach_kernels(void)
{
    static mx_kernel any[1024];
    static bool attached;
    int n = 0;
    for (mx_op *const *family = mx_op_families; !attached && *family; family++)
        for (mx_op *op = *family; op->name; op++)
            if (n < 1024 && !(op->flags & (MX_OP_CALLS | MX_OP_EXPANDS))) {
                any[n] = (mx_kernel){.op = op->name, .run = do_nothing};
                mx_op_attach(MX_GPU, &any[n++]);
            }
    attached = true;
}

static mx_device device = {.name = "gpu", .type = MX_GPU, .count = count, .alloc = allocate, .free = release, .copy = copy,
                           .to_host = copy, .from_host = copy, .wait = wait_for, .attach_kernels = attach_kernels};

/* These replace the functions that load the CUDA library. */
mx_device *mx_gpu_device(const char **why) { return *why = "", &device; }
const mx_lanes *mx_gpu_lanes(void) { return NULL; }

static const struct variant {
    const char *name;
    uint32_t can;
    int (*channel_block)(void);
    bool recompute; /* as hybridize was asked */
} variants[] = {{"plain", MX_CAN_LIMIT_NORM, NULL, false},
                {"blocked", MX_CAN_LIMIT_NORM, block_of_8, false},
                {"able", 0xffffffff & ~MX_CAN_RECOMPUTE, NULL, false},
                {"thrifty", 0xffffffff, NULL, false},
                {"short", MX_CAN_LIMIT_NORM, NULL, true},
                {"ably short", 0xffffffff & ~MX_CAN_RECOMPUTE, NULL, true}};
enum { THRIFTY = 3, SHORT = 4, VARIANTS = sizeof variants / sizeof *variants };

/* ---- networks ------------------------------------------------------------------------------------------------------- */

static mx_block *lenet(void)
{
    return mx_hybrid_sequential(mx_conv2d(6, MX_DIMS(5, 5), .activation = "relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                mx_conv2d(8, MX_DIMS(3, 3)), mx_batch_norm(), mx_activation("relu"), mx_flatten(),
                                mx_dense(16, .activation = "relu"), mx_dropout(0.5), mx_dense(10));
}

/* relu before and after max pooling, pooling with padding, explicit layouts, dense layers with relu. */
static mx_block *pooled(void)
{
    return mx_hybrid_sequential(mx_conv2d(5, MX_DIMS(3, 3), .activation = "relu"), mx_max_pool2d(MX_DIMS(2, 2)),
                                mx_conv2d(8, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .activation = "relu"),
                                mx_max_pool2d(MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)),
                                mx_batch_norm(), mx_activation("relu"), mx_avg_pool2d(MX_DIMS(2, 2)),
                                mx_dense(20, .activation = "relu"), mx_dense(12, .activation = "relu"), mx_dense(10));
}

static mx_block *residual(void) { return mx_model("resnet18_v1", .classes = 10); }
static mx_block *residual_first(void) { return mx_model("resnet18_v2", .classes = 10); }
static mx_block *separable(void) { return mx_model("mobilenetv2_0.25", .classes = 10); }
static mx_block *fired(void) { return mx_model("squeezenet1.1", .classes = 10); }

/* Scores of so many classes that devices want whole rows of them. */
static mx_block *classes(void) { return mx_hybrid_sequential(mx_dense(6), mx_dense(1029)); }
static mx_block *unbiased_classes(void) { return mx_hybrid_sequential(mx_dense(6), mx_dense(1029, .use_bias = false)); }

static mx_block *smooth(void) { return mx_hybrid_sequential(mx_dense(24), mx_gelu(), mx_dense(10)); }

/* Steps that read a value more than once, results inside the network, concatenation, slices, constants, two outputs. */
static mx_array *mixed_forward(mx_block *self, mx_arrays in)
{
    mx_array *x = mx_call(mx_block_child_at(self, 0), in.v[0]); /* (N, 8, H, W) */
    mx_array *a = mx_relu(x), *b = mx_call(mx_block_child_at(self, 1), a);
    mx_array *c = mx_concat(MX_ARRAYS(a, mx_relu(mx_add(b, x)), mx_sigmoid(b)), .dim = 1);
    mx_array *half = mx_slice_axis(c, .axis = 1, .begin = 0, .end = 8);
    mx_array *norm = mx_call(mx_block_child_at(self, 2), mx_add(half, mx_mul_scalar(a, .scalar = 0.5)));
    mx_array *limited = mx_clip(norm, .a_min = 0, .a_max = 6);
    mx_array *ones = mx_sqrt(mx_mul_scalar(mx_ones_like(limited), .scalar = 4));
    mx_array *both = mx_pooling(mx_relu(mx_mul(limited, ones)), .kernel = MX_DIMS(2, 2), .stride = MX_DIMS(2, 2),
                                .pool_type = MX_POOLING_MAX, .layout = MX_POOLING_NCHW);
    mx_array *y = mx_call(mx_block_child_at(self, 3), mx_tanh(mx_add(both, mx_copy(both))));
    return mx_add(y, mx_softmax(mx_log_softmax(y)));
}

static mx_block *mixed(void)
{
    mx_block *net = mx_block_new("Mixed", mixed_forward, .hybrid = true);
    mx_block_child(net, "first", mx_conv2d(8, MX_DIMS(3, 3), .strides = MX_DIMS(2, 2), .padding = MX_DIMS(1, 1)));
    mx_block_child(net, "second",
                   mx_conv2d(8, MX_DIMS(3, 3), .padding = MX_DIMS(1, 1), .groups = 8, .use_bias = false));
    mx_block_child(net, "norm", mx_batch_norm());
    mx_block_child(net, "out", mx_dense(10, .use_bias = false));
    return net;
}

/* Self-attention, layer normalisation and dense layers around it; data (N, 1, 14, 14). */
static mx_array *attention_forward(mx_block *self, mx_arrays in)
{
    mx_array *x =
        mx_call(mx_block_child_at(self, 0), mx_reshape(in.v[0], .shape = MX_DIMS(0, 14, 14))); /* (N, T, 16) */
    for (int i = 1; i < 3; i++) {
        mx_array *q = mx_call(mx_block_child_at(self, 4), x), *k = mx_call(mx_block_child_at(self, 5), x);
        mx_array *score = mx_softmax(mx_div_scalar(mx_batch_dot(q, k, .transpose_b = true), .scalar = 4));
        mx_array *y = mx_batch_dot(mx_op_dropout(score, .p = 0.1), mx_call(mx_block_child_at(self, 6), x));
        x = mx_call(mx_block_child_at(self, i), mx_add(x, y));
        x = mx_add(x, mx_call(mx_block_child_at(self, 7), mx_call(mx_block_child_at(self, 8), x)));
    }
    return mx_call(mx_block_child_at(self, 3), x);
}

static mx_block *attention(void)
{
    mx_block *net = mx_block_new("Attention", attention_forward, .hybrid = true);
    mx_block_child(net, "in", mx_dense(16, .flatten = false));
    mx_block_child(net, "norm1", mx_layer_norm()), mx_block_child(net, "norm2", mx_layer_norm());
    mx_block_child(net, "out", mx_dense(10));
    mx_block_child(net, "query", mx_dense(16, .flatten = false)),
        mx_block_child(net, "key", mx_dense(16, .flatten = false));
    mx_block_child(net, "value", mx_dense(16, .flatten = false));
    mx_block_child(net, "narrow", mx_dense(16, .flatten = false));
    mx_block_child(net, "wide", mx_dense(40, .flatten = false, .activation = "relu"));
    return net;
}

static const struct network {
    const char *name;
    mx_block *(*make)(void);
    int channels, side;
    mx_dtype dtype;
    int batch; /* no elements are computed: it may be large */
} networks[] = {{"lenet", lenet, 1, 14, MX_FLOAT32, BATCH},
                {"pooled", pooled, 1, 18, MX_FLOAT32, BATCH},
                {"lenet16", lenet, 3, 14, MX_FLOAT16, BATCH},
                {"pooled16", pooled, 3, 18, MX_FLOAT16, BATCH},
                {"lenet64", lenet, 1, 14, MX_FLOAT64, BATCH},
                {"mixed", mixed, 3, 16, MX_FLOAT32, BATCH},
                {"mixed16", mixed, 3, 16, MX_FLOAT16, BATCH},
                {"attention", attention, 1, 14, MX_FLOAT32, BATCH},
                {"attention16", attention, 1, 14, MX_FLOAT16, BATCH},
                {"resnet_v1", residual, 3, 224, MX_FLOAT32, 1024},
                {"resnet_v2", residual_first, 3, 224, MX_FLOAT32, 1024},
                {"mobilenet", separable, 3, 32, MX_FLOAT32, BATCH},
                {"squeezenet", fired, 3, 224, MX_FLOAT32, BATCH},
                {"classes", classes, 1, 4, MX_FLOAT32, BATCH},
                {"classes16", unbiased_classes, 1, 4, MX_FLOAT16, BATCH},
                {"gelu", smooth, 1, 14, MX_FLOAT32, 64}};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* ---- a program as a line ---------------------------------------------------------------------------------------------- */

static uint64_t hash;
static void mix(uint64_t number) { hash = (hash ^ number) * 1099511628211u, hash ^= hash >> 29; }
static void mix_text(const char *text)
{
    for (; *text; text++)
        mix((unsigned char)*text);
}

static void mix_attributes(const mx_step *step)
{
    char text[MX_VALUE_TEXT];
    const mx_schema *schema = step->op->schema;
    for (int i = 0; schema && step->attrs && i < schema->count; i++)
        if (schema->fields[i].type != MX_FIELD_PTR)
            mix_text(mx_field_text(&schema->fields[i], step->attrs, text));
}

static void mix_values(const mx_plan *plan, int n, const int32_t *list)
{
    for (int i = 0; i < n; i++) {
        mix((uint64_t)list[i]);
        if (list[i] < 0)
            continue;
        const mx_value *v = &plan->program.values.items[list[i]];
        mix((uint64_t)v->dtype), mix((uint64_t)v->shape.ndim);
        for (int k = 0; k < v->shape.ndim; k++)
            mix((uint64_t)v->shape.dim[k]);
        mix((uint64_t)plan->memory.place[list[i]].kind), mix((uint64_t)plan->memory.place[list[i]].at);
    }
}

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* "pooled plain train: 4f2a8b33 1920: Pooling 2, relu 3 ..." */
static void describe(const mx_plan *plan, const char *name, char *line)
{
    const mx_program *p = &plan->program;
    const char *names[MOST_STEPS];
    int n = 0;
    hash = 14695981039346656037u;
    mix((uint64_t)p->forward), mix((uint64_t)p->prepared), mix((uint64_t)p->forward_results);
    for (int64_t i = 0; i < p->steps.length && n < MOST_STEPS; i++) {
        const mx_step *step = &p->steps.items[i];
        names[n++] = step->op->name;
        mix_text(step->op->name), mix(step->training);
        mix_attributes(step);
        mix_values(plan, step->n_in, step->in), mix_values(plan, step->n_out, step->out);
    }
    mix_values(plan, (int)p->results.length, p->results.items);
    qsort(names, (size_t)n, sizeof *names, by_name);
    int length = snprintf(line, MOST_LINE, "%s: %08x %lld %lld:", name, (unsigned)(hash >> 32),
                          (long long)plan->memory.arena, (long long)plan->memory.prepared);
    for (int i = 0, k; i < n && length < MOST_LINE - 128; i += k) {
        for (k = 1; i + k < n && !strcmp(names[i], names[i + k]); k++) {
        }
        length += snprintf(line + length, (size_t)(MOST_LINE - length), " %s %d", names[i], k);
    }
}

enum mode { PREDICT, TRAIN, STEP, MODES };

/* Allocation number `fails` fails; 0: none does. */
static mx_compiled *compile(const struct network *network, const struct variant *variant, enum mode mode, mx_block *net,
                            int64_t fails)
{
    MX_SCOPE;
    const mx_dims shape = MX_DIMS(network->batch, network->channels, network->side, network->side);
    mx_plan_key key = {.n_in = mode == STEP ? 2 : 1, .training = mode != PREDICT, .recording = mode != PREDICT,
                       .context = mx_gpu(0)};
    key.shape[0] = mx_shape_of_dims(&shape), key.type[0] = network->dtype;
    key.shape[1] = (mx_shape_t){.ndim = 1, .dim = {network->batch}}, key.type[1] = MX_FLOAT32;
    const struct mx_compile_request request = {.block = net, .key = &key, .whole = mode == STEP,
                                               .loss = mode == STEP ? mx_softmax_cross_entropy_loss() : NULL};
    device.can = variant->can, device.channel_block = variant->channel_block;
    net->recompute = variant->recompute;
    mx_alloc_fail_at(fails);
    mx_compiled *made = mx_compile(&request);
    mx_alloc_fail_at(0);
    return made;
}

static void compile_line(const struct network *network, const struct variant *variant, enum mode mode, mx_block *net,
                         char *line)
{
    static const char *const modes[] = {"predict", "train", "step"};
    char name[128];
    mx_compiled *made = compile(network, variant, mode, net, 0);
    check_no_error();
    assert_non_null(made);
    snprintf(name, sizeof name, "%s %s %s", network->name, variant->name, modes[mode]);
    describe(made->plan, name, line);
    mx_release(made);
}

static mx_block *make_network(const struct network *network)
{
    mx_block *net = network->make();
    device.can = 0, device.channel_block = NULL;
    mx_block_cast(net, network->dtype);
    mx_initialize(net, mx_xavier(), mx_gpu(0));
    mx_call(net, mx_zeros(.shape = MX_DIMS(1, network->channels, network->side, network->side), .dtype = network->dtype,
                          .ctx = mx_gpu(0)));
    check_no_error();
    return net;
}

/* Calls use(line) for each program. */
static void each_program(void (*use)(const char *line))
{
    char line[MOST_LINE];
    for (int i = 0; i < NETWORKS; i++) {
        MX_SCOPE;
        mx_block *net = make_network(&networks[i]);
        for (int v = 0; v < VARIANTS; v++)
            for (enum mode mode = PREDICT; mode < MODES; mode++) {
                if ((variants[v].channel_block && mode != PREDICT) || (variants[v].recompute && mode == PREDICT) ||
                    (variants[v].can & MX_CAN_RECOMPUTE && (mode == PREDICT || networks[i].batch == BATCH)))
                    continue; /* only predictions use blocks, only large training programs recompute */
                compile_line(&networks[i], &variants[v], mode, net, line);
                use(line);
            }
    }
}

/* ---- the file --------------------------------------------------------------------------------------------------------- */

static FILE *file;
static int different;

static void write_line(const char *line) { fprintf(file, "%s\n", line); }

static void compare_line(const char *line)
{
    char wanted[MOST_LINE] = "";
    do {
        if (!fgets(wanted, sizeof wanted, file))
            wanted[0] = 0;
    } while (wanted[0] == '#');
    wanted[strcspn(wanted, "\n")] = 0;
    if (strcmp(wanted, line) && different++ < 4)
        printf("  the program is  %s\n  the file has    %s\n", line, wanted);
}

static void test_programs(void **state)
{
    (void)state;
    file = fopen(FILE_NAME, "r");
    assert_non_null(file);
    each_program(compare_line);
    fclose(file);
    if (different)
        fail_msg("%d programs differ from programs.gen.txt; after an intended change: test_pass_programs -w",
                 different);
}

static void ignore(const char *line) { (void)line; }

/* Whatever a program and its plan allocate is freed with them. */
static void test_leaks(void **state)
{
    (void)state;
    each_program(ignore);
    const int64_t before = mx_alloc_get_stats().live_blocks;
    each_program(ignore);
    assert_int_equal(mx_alloc_get_stats().live_blocks, before);
}

static void fail_each_allocation(const struct network *network, const struct variant *variant)
{
    MX_SCOPE;
    mx_block *net = make_network(network);
    mx_release(compile(network, variant, STEP, net, 0));
    const int64_t before = mx_alloc_get_stats().live_blocks;
    mx_compiled *made = NULL;
    int64_t n = 0;
    while (!made) {
        made = compile(network, variant, STEP, net, ++n);
        if (!made)
            check_error(MX_ERR_MEMORY, "");
        if (!made && mx_alloc_get_stats().live_blocks != before)
            fail_msg("%s, allocation %lld: %lld blocks leaked", network->name, (long long)n,
                     (long long)(mx_alloc_get_stats().live_blocks - before));
    }
    mx_release(made);
    assert_true(n > 100);
}

/* Memory that runs out in any pass is an error, and leaves nothing behind. */
static void test_failing_allocations(void **state)
{
    (void)state;
    for (int i = 0; i < NETWORKS; i++)
        if (networks[i].side <= 20) { /* large networks have the same steps */
            fail_each_allocation(&networks[i], &variants[THRIFTY]);
            fail_each_allocation(&networks[i], &variants[SHORT]);
        }
}

int main(int argc, char **argv)
{
    mx_set_num_threads(2); /* on which the sizes of groups depend (pass/batch.c) */
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_programs), cmocka_unit_test(test_leaks),
                                       cmocka_unit_test(test_failing_allocations)};
    if (argc < 2 || strcmp(argv[1], "-w"))
        return cmocka_run_group_tests(tests, NULL, NULL);
    file = fopen(FILE_NAME, "w");
    if (!file)
        return perror(FILE_NAME), 1;
    write_line("# Written by `test_pass_programs -w`: what passes make of the networks of tests/pass/test_programs.c.");
    each_program(write_line);
    return fclose(file) != 0;
}
