/* Making arguments (see arguments.h).  SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define PICK(d, list) (list)[garbage_roll(d, COUNT(list))]
#define BUFFER ((size_t)4 << 20) /* as much as an array may have */
#define TEXT 4200                /* bytes of a text with the zeros after it: more than garbage_room() */
#define GIVEN 4096

static struct {
    bool bad; /* garbage_gave_bad() */
    void *memory[GIVEN];
    int n_memory;
    int turn; /* of callbacks */
} state;

bool garbage_chance(garbage_dice *d, int percent) { return garbage_roll(d, 100) < (uint64_t)percent; }
bool garbage_gave_bad(void) { return state.bad; }
void garbage_give_anew(bool bad) { state.bad = bad; }

void *garbage_memory(size_t bytes)
{
    static char spare[65536]; /* once the table is full */
    void *memory = state.n_memory < GIVEN ? calloc(1, bytes) : NULL;
    if (!memory)
        return spare;
    return state.memory[state.n_memory++] = memory;
}

void garbage_memory_free(void)
{
    while (state.n_memory)
        free(state.memory[--state.n_memory]);
}

/* ---- good objects --------------------------------------------------------------------------------------------- */

static mx_array *small(void) { return mx_array_from(MX_DIMS(2, 3), MX_FLOAT32, (float[]){1, 2, 3, -1, 0.5f, 0}); }

static mx_array *good_array(garbage_dice *d)
{
    mx_array *x = small();
    switch (garbage_roll(d, 14)) {
    case 0: return mx_array_from(MX_DIMS(3), MX_INT32, (int32_t[]){0, 1, 2});
    case 1: return mx_array_scalar(1);
    case 2: return mx_empty(MX_DIMS(0, 3), MX_FLOAT32, mx_cpu(0));
    case 3: return mx_tostype(x, MX_ROW_SPARSE);
    case 4: return mx_tostype(x, MX_CSR);
    case 5: return mx_variable("data");
    case 6: return MX_NONE;
    case 7: return mx_attach_grad(x, MX_GRAD_WRITE), x;
    case 8: return mx_cast(x, .dtype = MX_FLOAT16);
    case 9: return mx_array_from(MX_DIMS(4, 4, 3), MX_UINT8, garbage_memory(48));
    case 10: return mx_number_float(2);
    case 11: return mx_array_from(MX_SCALAR_DIMS, MX_FLOAT64, (double[]){3});
    case 12: return mx_call(mx_dense(2, .in_units = 3), mx_variable("data"));
    default: return x;
    }
}

static mx_block *initialized(mx_block *block) { return mx_initialize(block, NULL, mx_cpu(0)), block; }
static mx_array *pass(mx_block *self, mx_arrays in) { return (void)self, in.v[0]; }

static mx_block *good_block(garbage_dice *d)
{
    switch (garbage_roll(d, 8)) {
    case 0: return mx_dense(3);
    case 1: return initialized(mx_sequential(mx_dense(4), mx_dense(2)));
    case 2: return initialized(mx_lstm_cell(4, .input_size = 3));
    case 3: return mx_block_new("Own", pass, .hybrid = true);
    case 4: return mx_sequential_make(true, NULL);
    case 5: return mx_softmax_cross_entropy_loss();
    default: {
        mx_block *block = initialized(mx_dense(2, .in_units = 3));
        return garbage_chance(d, 50) ? (mx_hybridize(block), block) : block;
    }
    }
}

static mx_dataset *good_dataset(garbage_dice *d)
{
    if (garbage_chance(d, 30))
        return mx_image_list("a.lst");
    return mx_array_dataset(garbage_chance(d, 50) ? MX_ARRAYS(small(), small()) : MX_ARRAYS(small()));
}

static mx_symbol *good_symbol(garbage_dice *d)
{
    mx_array *x = mx_variable("data", .shape = MX_DIMS(2, 3));
    if (garbage_chance(d, 30))
        return mx_symbol_of(MX_ARRAYS(x));
    mx_array *y = mx_call(mx_sequential(mx_dense(4), mx_batch_norm()), x);
    return mx_symbol_of(garbage_chance(d, 50) ? MX_ARRAYS(y) : MX_ARRAYS(mx_relu(y), x));
}

static mx_executor *good_executor(garbage_dice *d)
{
    mx_executor *run = mx_simple_bind(good_symbol(d), mx_cpu(0), &(struct mx_known){.count = 0}, MX_GRAD_WRITE);
    if (garbage_chance(d, 50))
        mx_executor_forward(run, garbage_bool(d));
    return run;
}

static mx_parameter *good_parameter(garbage_dice *d)
{
    mx_parameter *p =
        mx_parameter_new("w", .shape = MX_DIMS(garbage_chance(d, 50) ? 2 : 0, 3), .allow_deferred_init = true);
    if (garbage_chance(d, 60))
        mx_parameter_initialize(p, NULL, NULL, 0, false);
    return p;
}

static mx_record_reader *good_reader(garbage_dice *d)
{
    mx_record_reader *reader = mx_record_reader_open("a.rec");
    if (garbage_chance(d, 30))
        mx_record_reader_close(reader);
    return reader;
}

static mx_record_writer *good_writer(garbage_dice *d)
{
    mx_record_writer *writer = mx_record_writer_open("b.rec", garbage_chance(d, 50) ? "b.idx" : NULL);
    if (garbage_chance(d, 30))
        mx_record_writer_close(writer);
    return writer;
}

static mx_train_step *good_step(garbage_dice *d)
{
    mx_block *net = good_block(d);
    return mx_train_step_new(net, mx_l2_loss(), mx_trainer_new(mx_collect_params(net), "sgd", NULL));
}

#define MAKE(kind, expression) \
    static void *make_##kind(garbage_dice *d) { return (void)d, (void *)(expression); }
GARBAGE_KINDS(MAKE)
#define MAKER(kind, expression) make_##kind,
static void *(*const makers[])(garbage_dice *) = {GARBAGE_KINDS(MAKER)};

/* Half of them as they should be.  What fails to be made is NULL. */
void *garbage_object(garbage_dice *d, garbage_kind kind)
{
    static char dead[4096]; /* holds no object */
    const uint64_t roll = garbage_roll(d, 100);
    void *object = NULL;
    if (roll < 10)
        return NULL;
    if (roll < 15)
        state.bad = true, memset(dead, 0, sizeof dead), object = dead;
    else if (roll < 25) {
        const garbage_kind other = (garbage_kind)garbage_roll(d, GARBAGE_KIND_COUNT);
        object = makers[other](d);
        state.bad |= object && other != kind;
    } else
        object = makers[kind](d);
    mx_error_clear();
    return object;
}

mx_op *garbage_op(garbage_dice *d)
{
    mx_op *op = garbage_chance(d, 10) ? NULL : mx_op_at((int)garbage_roll(d, 600));
    mx_error_clear();
    return op;
}

mx_class *garbage_class(garbage_dice *d)
{
    mx_class *cls = garbage_chance(d, 10) ? NULL : mx_class_at((int)garbage_roll(d, 200));
    mx_error_clear();
    return cls;
}

/* ---- numbers ---------------------------------------------------------------------------------------------------- */

int garbage_int(garbage_dice *d)
{
    return PICK(d, ((const int[]){0, 1, 2, 3, -1, 5, 9, 13, 1000, -7, INT_MAX, INT_MIN}));
}
int64_t garbage_int64(garbage_dice *d)
{
    return PICK(d, ((const int64_t[]){0, 1, 2, 3, 5, -1, -7, 100, 1 << 20, (int64_t)1 << 31, (int64_t)1 << 62, INT64_MAX,
                                      INT64_MIN}));
}
int garbage_count(garbage_dice *d) { return PICK(d, ((const int[]){0, 1, 1, 2, 2, 3, 8, -1, -5, INT_MIN})); }
size_t garbage_room(garbage_dice *d) { return PICK(d, ((const size_t[]){0, 1, 7, 8, 24, 100, 4096})); }
double garbage_double(garbage_dice *d)
{
    return PICK(d, ((const double[]){0, 1, -1, 0.5, 2, 100, 1e-30, 1e30, 1e300, NAN, INFINITY, -INFINITY}));
}
bool garbage_bool(garbage_dice *d) { return garbage_chance(d, 50); }
int garbage_enum(garbage_dice *d)
{
    return PICK(d, ((const int[]){0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 12, -1, 13, 77, INT_MAX, INT_MIN}));
}

/* ---- values ----------------------------------------------------------------------------------------------------- */

mx_dims garbage_dims(garbage_dice *d)
{
    static const int64_t sizes[] = {0, 1, 2, 3, 3, 5, 17, 100, -1, (int64_t)1 << 31, INT64_MAX, MX_NONE_INT};
    mx_dims dims = {.n = PICK(d, ((const int[]){0, 1, 2, 2, 3, 4, 8, 9, 16, 17, -1, -5, INT_MAX}))};
    for (int i = 0; i < MX_MAX_TUPLE; i++)
        dims.d[i] = sizes[garbage_roll(d, garbage_chance(d, 90) ? 6 : COUNT(sizes))];
    return dims;
}

mx_floats garbage_floats(garbage_dice *d)
{
    mx_floats floats = {.n = PICK(d, ((const int[]){0, 1, 2, 3, 3, 16, 17, -1, -5, INT_MAX}))};
    for (int i = 0; i < MX_MAX_TUPLE; i++)
        floats.d[i] = garbage_double(d);
    return floats;
}

mx_context garbage_context(garbage_dice *d)
{
    return (mx_context){PICK(d, ((const int[]){0, 1, 1, 1, 2, 3, 5, 9, -1, INT_MAX})),
                        PICK(d, ((const int[]){0, 0, 0, 1, -1, 1000}))};
}

mx_arrays garbage_arrays(garbage_dice *d)
{
    mx_array **v = garbage_memory(9 * sizeof *v);
    const int n = (int)garbage_roll(d, 4);
    if (garbage_chance(d, 8))
        return (mx_arrays){NULL, garbage_chance(d, 50) ? 0 : -1};
    const bool bad = state.bad; /* an empty list may be ignored, and so may what is in it */
    for (int i = 0; i < 8; i++)
        v[i] = garbage_object(d, GARBAGE_ARRAY);
    state.bad = bad;
    v[garbage_chance(d, 50) ? n : 8] = MX_END;
    return (mx_arrays){v, garbage_chance(d, 40) ? -1 : garbage_chance(d, 5) ? -7 : n};
}

const char *garbage_text(garbage_dice *d)
{
    static const char *const texts[] = {
        "a.params", "a.npy", "a.rec", "a.idx", "a.lst", "a.png", "a.states", "a-symbol.json", "t.json", "a.onnx", "a", "events", "missing/x",
        "b.npz", "b.safetensors", "b.json", "", "x", "data", "w", "Dense", "dense0_weight", "sgd", "adam", "relu", "accuracy",
        "float32", "local", "dist_sync", "2bit", "NTC", "ij,jk->ik", "ii", "learning_rate=0.1", "units=2", "lr=(((", "resnet18_v1",
        "%n%s%s", "\xff\xfe\x80", "[", "{\"nodes\": []}", "-1", "9999999999999999999", "(1, 2", "total", "process", ".png", "*?(",
        "data, w", "fullyconnected0_output", "relu", "Convolution", "1.5e999"};
    char *text = garbage_memory(TEXT);
    if (garbage_chance(d, 7))
        return NULL;
    if (garbage_chance(d, 2))
        return memset(text, 'a' + (int)garbage_roll(d, 26), 4100);
    strcpy(text, PICK(d, texts));
    return text;
}

FILE *garbage_stream(garbage_dice *d)
{
    static FILE *stream;
    if (!stream)
        stream = fopen("/dev/null", "w");
    return garbage_chance(d, 10) ? NULL : stream;
}

struct DLManagedTensor *garbage_tensor(garbage_dice *d)
{
    struct DLManagedTensor *tensor = garbage_chance(d, 10) ? NULL : mx_to_dlpack(good_array(d), -1);
    mx_error_clear();
    return tensor;
}

struct DLManagedTensorVersioned *garbage_tensor_versioned(garbage_dice *d)
{
    struct DLManagedTensorVersioned *tensor = garbage_chance(d, 10) ? NULL : mx_to_dlpack_versioned(good_array(d), -1);
    mx_error_clear();
    return tensor;
}

void *garbage_buffer(garbage_dice *d)
{
    static char buffer[BUFFER + 4096];
    if (garbage_chance(d, 10))
        return NULL;
    if (garbage_chance(d, 30)) /* what a file begins with */
        memcpy(buffer, "\x12\x01\0\0\0\0\0\0", 8);
    else if (garbage_chance(d, 30))
        memcpy(buffer, "\x89PNG\r\n\x1a\n", 8);
    return buffer;
}

const void **garbage_buffers(garbage_dice *d)
{
    const void **list = garbage_memory(2 * sizeof *list);
    list[0] = garbage_buffer(d);
    return garbage_chance(d, 10) ? NULL : list;
}

/* ---- callbacks ---------------------------------------------------------------------------------------------------- */

mx_code garbage_stub_code(void) { return state.turn++ % 3 ? MX_OK : MX_ERR_CALLBACK; }
mx_array *garbage_stub_array(void) { return state.turn++ % 3 ? mx_array_scalar(1) : NULL; }
mx_arrays garbage_stub_arrays(void)
{
    switch (state.turn++ % 4) {
    case 0: return (mx_arrays){NULL, -1};
    case 1: return (mx_arrays){0};
    default: return mx_results(mx_array_scalar(1));
    }
}
double garbage_stub_double(void) { return state.turn++ % 3 ? 0.5 : NAN; }
