/* Every operator, called wrongly in every way that its description suggests.
 *
 * A wrong call gives an error whose message names the operator, or a legal result; never a signal, a hang or a leak.
 * Each operator runs in a child process; its last call is in shared memory, so a crash is reported with the
 * call that caused it and the others still run.  Memory of the child is limited: a wrong size must fail, not swap.
 *
 *     test_op_failures            all operators
 *     test_op_failures dot        those named
 *
 * ctest-timeout: 900
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/error.h"
#include "op/expand.h"
#include "ops_case.h"

#define SECONDS_PER_OP 60
#define CHILD_BYTES ((rlim_t)3 << 30)

/* What parent and child share. */
static struct shared {
    char doing[512]; /* the call that runs now */
    int calls, failures;
    bool quiet; /* the same calls once more: print nothing */
} * shared;

const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1:max_allocation_size_mb=2048"; }

/* ---- one call ------------------------------------------------------------------------------------------- */

typedef struct attempt {
    mx_op *op;
    void *attrs;
    int n_in;
    mx_array *in[OPS_MAX_IN];
} attempt;

static void complain(const mx_op *op, const char *format, ...) MX_PRINTF(2, 3);
static void complain(const mx_op *op, const char *format, ...)
{
    va_list args;
    if (shared->quiet || ++shared->failures > 8)
        return;
    printf("  %s: %s: ", op->name, shared->doing);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static void now(const char *format, ...) MX_PRINTF(1, 2);
static void now(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(shared->doing, sizeof shared->doing, format, args);
    va_end(args);
}

static void judge_error(const mx_op *op, mx_code code)
{
    if (!mx_has_error())
        complain(op, "returned code %d without an error", (int)code);
    else if (!*mx_error_message())
        complain(op, "the error has no message");
    else if (!strstr(mx_error_message(), op->name))
        complain(op, "the message does not name the operator: \"%s\"", mx_error_message());
}

/* A legal result is an array of a legal shape and type for every visible output. */
static void judge_result(const attempt *a, mx_array *const *out)
{
    const int n = mx_op_count_visible(a->op, a->attrs ? a->attrs : a->op->defaults);
    for (int i = 0; i < n; i++)
        if (!out[i] || out[i]->object.guard != MX_OBJECT_ALIVE || (out[i]->storage && !mx_dtype_valid(out[i]->dtype)))
            complain(a->op, "succeeded, but output %d is not an array", i);
}

/* What runs forward must also run backward, or report why not. */
static void attempt_backward(const attempt *a)
{
    MX_SCOPE;
    mx_array *out[MX_MAX_OUTPUTS] = {NULL}, *heads[MX_MAX_OUTPUTS];
    const int n = mx_op_count_visible(a->op, a->attrs ? a->attrs : a->op->defaults);
    int n_heads = 0;
    for (int k = 0; k < a->n_in; k++) {
        if (a->in[k] != MX_NONE && !a->in[k]->storage)
            return;
        if (a->in[k] != MX_NONE && mx_dtype_is_float(a->in[k]->dtype) && mx_attach_grad(a->in[k], MX_GRAD_WRITE))
            return mx_error_clear();
    }
    mx_mode mode = mx_mode_enter(1, -1);
    mx_code code = mx_invoke(a->op, a->attrs, a->n_in, a->in, MX_MAX_OUTPUTS, out);
    mx_mode_leave(&mode);
    for (int i = 0; !code && i < n; i++)
        if (out[i]->node && mx_dtype_is_float(out[i]->dtype))
            heads[n_heads++] = out[i];
    if (!code && n_heads)
        code = mx_backward_all((mx_arrays){heads, n_heads}, NULL);
    if (code && (!mx_has_error() || !*mx_error_message()))
        complain(a->op, "backward returned code %d without an error", (int)code);
    else if (!code && mx_has_error())
        complain(a->op, "backward succeeded, but an error is set: %s", mx_error_message());
    mx_error_clear();
}

/* Runs the call; `must_fail`: a success is wrong. Leaves no error. */
static void attempt_call(const attempt *a, bool must_fail)
{
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    mx_error_clear();
    shared->calls++;
    mx_code code = mx_invoke(a->op, a->attrs, a->n_in, a->in, MX_MAX_OUTPUTS, out);
    if (code)
        judge_error(a->op, code);
    else if (mx_has_error())
        complain(a->op, "succeeded, but an error is set: %s", mx_error_message());
    else if (must_fail)
        complain(a->op, "succeeded, wanted an error");
    else {
        judge_result(a, out);
        attempt_backward(a);
    }
    mx_error_clear();
}

/* ---- a valid call to start from -------------------------------------------------------------------------- */

/* The first sample that runs, in its first type. */
static bool start(mx_op *op, ops_case *c, int *types, ops_values *values)
{
    static const mx_dtype list[] = {MX_FLOAT32, MX_FLOAT64, MX_INT32, MX_UINT8, MX_INT64};
    for (int number = 0; number < ops_sample_count(op); number++) {
        if (!ops_case_open(c, op, number))
            continue;
        for (size_t t = 0; t < sizeof list / sizeof *list; t++) {
            if (!ops_draw(c, list[t], values))
                continue;
            for (int variant = 0; ops_types(c, list[t], variant, types); variant++) {
                MX_SCOPE;
                mx_array *in[OPS_MAX_IN], *out[MX_MAX_OUTPUTS] = {NULL};
                mx_error_clear();
                if (ops_arrays(c, values, types, false, in) && !ops_run(c, in, out))
                    return true;
            }
            ops_values_free(values);
        }
        ops_case_close(c);
    }
    mx_error_clear();
    return false;
}

static attempt right_call(const ops_case *c, const ops_values *values, const int *types)
{
    attempt a = {.op = c->op, .attrs = c->attrs, .n_in = c->n_in};
    ops_arrays(c, values, types, false, a.in);
    return a;
}

/* ---- inputs --------------------------------------------------------------------------------------------- */

static void wrong_counts(const ops_case *c, const ops_values *values, const int *types)
{
    MX_SCOPE;
    attempt a = right_call(c, values, types);
    mx_array *some = a.n_in && a.in[0] != MX_NONE
                         ? a.in[0]
                         : ops_array(&(mx_shape_t){.ndim = 1, .dim = {2}}, MX_FLOAT32, NULL, false);
    const int right = a.n_in;
    for (int n = 0; n <= right + 2 && n < OPS_MAX_IN; n++) {
        if (n == right)
            continue;
        now("%d inputs instead of %d", n, right);
        if (n > right)
            a.in[n - 1] = some;
        a.n_in = n;
        attempt_call(&a, !(c->op->flags & MX_OP_LIST) && n > c->op->declared_inputs);
    }
    a.n_in = -1;
    now("-1 inputs");
    mx_array *out[MX_MAX_OUTPUTS] = {NULL};
    if (mx_invoke(a.op, a.attrs, -1, a.in, MX_MAX_OUTPUTS, out) == MX_OK)
        complain(a.op, "succeeded, wanted an error");
    mx_error_clear();
}

typedef struct stranger {
    mx_object object;
    char text[64];
} stranger;
static void stay(mx_object *self) { (void)self; }
static const mx_kind stranger_kind = {"text", stay};

static void wrong_objects(const ops_case *c, const ops_values *values, const int *types)
{
    MX_SCOPE;
    static stranger text, freed;
    mx_object_init(&text.object, &stranger_kind);
    mx_object_init(&freed.object, &mx_array_kind);
    freed.object.guard = 0;
    const struct {
        const char *what;
        mx_array *x;
    } objects[] = {{"NULL", NULL},
                   {"a text object", (mx_array *)&text},
                   {"a freed object", (mx_array *)&freed},
                   {"MX_END", MX_END}};
    for (int k = 0; k < c->n_in; k++) {
        attempt a = right_call(c, values, types);
        for (size_t i = 0; i < sizeof objects / sizeof *objects; i++) {
            now("input %d is %s", k, objects[i].what);
            a.in[k] = objects[i].x;
            attempt_call(&a, true);
        }
        now("input %d is MX_NONE", k);
        a.in[k] = MX_NONE;
        attempt_call(&a, false);
    }
}

/* Every rank, with sizes that fit nothing; all inputs or only one of them. */
static void wrong_ranks(const ops_case *c, const ops_values *values, const int *types)
{
    for (int k = -1; k < c->n_in; k++)
        for (int ndim = 0; ndim <= MX_MAX_NDIM; ndim++)
            for (int size = 0; size <= 3; size++) {
                MX_SCOPE;
                attempt a = right_call(c, values, types);
                mx_shape_t shape = {.ndim = ndim};
                for (int i = 0; i < ndim; i++)
                    shape.dim[i] = size < 3 ? size : i % 3 + 1;
                now("input %d (-1: all) has %d axes of size %d", k, ndim, size);
                double ones[6561];
                for (int i = 0; i < 6561; i++)
                    ones[i] = 1;
                for (int i = 0; i < c->n_in; i++)
                    if ((i == k || k < 0) && !c->absent[i])
                        a.in[i] = ops_array(&shape, (mx_dtype)types[i], ones, false);
                attempt_call(&a, false);
            }
}

static void wrong_types(const ops_case *c, const ops_values *values, const int *types)
{
    for (int k = 0; k < c->n_in; k++)
        for (int t = 0; t < MX_DTYPE_END && !c->absent[k]; t++) {
            if (!mx_dtype_valid(t) || t == types[k])
                continue;
            MX_SCOPE;
            attempt a = right_call(c, values, types);
            a.in[k] = ops_array(&values->shape[k], (mx_dtype)t, values->v[k], false);
            now("input %d is %s instead of %s", k, mx_dtype_name((mx_dtype)t), mx_dtype_name((mx_dtype)types[k]));
            attempt_call(&a, false);
        }
}

/* NaN, infinities and huge numbers in the data: indices among them must not reach memory. */
static void wrong_values(const ops_case *c, const ops_values *values, const int *types)
{
    static const double numbers[] = {-1, -1e9, 1e9, 1e18, -1e18, 1e300, NAN, INFINITY, -INFINITY, 0};
    for (int k = 0; k < c->n_in; k++)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !c->absent[k]; i++) {
            MX_SCOPE;
            attempt a = right_call(c, values, types);
            double *v = malloc(((size_t)values->size[k] + 1) * sizeof *v);
            for (int64_t n = 0; n < values->size[k]; n++)
                v[n] = numbers[i];
            a.in[k] = ops_array(&values->shape[k], (mx_dtype)types[k], v, false);
            free(v);
            now("input %d holds %g", k, numbers[i]);
            attempt_call(&a, false);
        }
}

/* Shapes of 2^40 elements and more, without data: only inference runs. */
static void huge_shapes(const ops_case *c, const ops_values *values, const int *types)
{
    static const int64_t sizes[] = {(int64_t)1 << 31, (int64_t)1 << 40, (int64_t)1 << 45};
    for (int k = -1; k < c->n_in; k++)
        for (int axis = 0; axis < MX_MAX_NDIM; axis++)
            for (size_t s = 0; s < 3; s++) {
                MX_SCOPE;
                attempt a = right_call(c, values, types);
                bool changed = false;
                for (int i = 0; i < c->n_in; i++) {
                    if (c->absent[i])
                        continue;
                    mx_shape_t shape = values->shape[i];
                    if ((i == k || k < 0) && axis < shape.ndim)
                        shape.dim[axis] = sizes[s], changed = true;
                    a.in[i] = mx_scope_add(mx_array_abstract(&shape, (mx_dtype)types[i], mx_cpu(0)));
                    changed &= a.in[i] != NULL;
                }
                mx_error_clear();
                now("axis %d of input %d (-1: all) has size %lld", axis, k, (long long)sizes[s]);
                if (changed)
                    attempt_call(&a, false);
            }
}

/* ---- attributes ----------------------------------------------------------------------------------------- */

static const char *const numbers[] = {"0",
                                      "-1",
                                      "1",
                                      "2",
                                      "7",
                                      "-9",
                                      "4611686018427387904",
                                      "-4611686018427387904",
                                      "9223372036854775807",
                                      "2147483648",
                                      "1099511627776",
                                      "None"};
static const char *const reals[] = {"0", "-1", "1e300", "-1e300", "1e-300", "nan", "inf", "-inf", "None"};
static const char *const tuples[] = {"()",
                                     "(0,)",
                                     "(-1,)",
                                     "(1, 1)",
                                     "(0, 0)",
                                     "(-1, -1)",
                                     "(1, 2, 3)",
                                     "(0, 0, 0, 0)",
                                     "(4611686018427387904,)",
                                     "(4611686018427387904, 4611686018427387904)",
                                     "(-4611686018427387904, 1)",
                                     "(2147483648, 2147483648)",
                                     "(1099511627776,)",
                                     "(None,)",
                                     "(1, 1, 1, 1, 1, 1, 1, 1, 1)",
                                     "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)",
                                     "(-2, -3, -4, 1, 2)",
                                     "None"};
static const char *const real_tuples[] = {"()",
                                          "(0,)",
                                          "(nan,)",
                                          "(inf, -inf)",
                                          "(1e300, 1e300, 1e300)",
                                          "(-1, -1)",
                                          "None",
                                          "(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)"};
static const char *const bools[] = {"True", "False", "None"};
static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "uint8",
                                     "int8",    "int32",   "int64",   "bool",     "None"};
static const char *const texts[] = {"", "x", "None", "((((((((", "%s%n%d", "add", "relu"};
static const char *const contexts[] = {"cpu(0)", "cpu(1000000)", "gpu(0)", "gpu(999)", "None"};
#define LIST(list) list, (int)(sizeof list / sizeof *list)

/* Values that parse but may make no sense, per field type. */
static const struct {
    const char *const *values;
    int count;
} odd_values[MX_FIELD_TYPES] = {
    [MX_FIELD_BOOL] = {LIST(bools)},   [MX_FIELD_INT] = {LIST(numbers)}, [MX_FIELD_FLOAT] = {LIST(reals)},
    [MX_FIELD_DTYPE] = {LIST(dtypes)}, [MX_FIELD_DIMS] = {LIST(tuples)}, [MX_FIELD_FLOATS] = {LIST(real_tuples)},
    [MX_FIELD_STR] = {LIST(texts)},    [MX_FIELD_CTX] = {LIST(contexts)}};

/* Texts that are not values of the type. */
static const char *const nonsense[] = {"",
                                       "x",
                                       "(1",
                                       "1)",
                                       "(1,,2)",
                                       "1 2",
                                       "0x",
                                       "--1",
                                       "[1)",
                                       "True1",
                                       "1e",
                                       "(((1)))",
                                       "99999999999999999999999",
                                       "\xff\xfe"};

static bool may_be_anything(const mx_field *f, const char *text)
{
    return f->type == MX_FIELD_STR || (f->type == MX_FIELD_CTX && !*text) ||
           ((f->type == MX_FIELD_DIMS || f->type == MX_FIELD_FLOATS) && !*text) ||
           ((f->type == MX_FIELD_FLOAT || f->type == MX_FIELD_FLOATS) && strspn(text, "0123456789") == strlen(text));
}

static void unparsable(const ops_case *c, const mx_field *f, void *attrs)
{
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        if (may_be_anything(f, nonsense[i]))
            continue;
        now("%s='%s'", f->name, nonsense[i]);
        mx_error_clear();
        mx_code code = mx_schema_set(c->op->schema, attrs, c->op->name, f->name, nonsense[i]);
        if (!code)
            complain(c->op, "was parsed, wanted an error");
        else if (mx_error_code() != MX_ERR_ATTRIBUTE || !strstr(mx_error_message(), f->name))
            complain(c->op, "the message does not name the attribute: \"%s\"", mx_error_message());
        else
            judge_error(c->op, code);
        mx_error_clear();
    }
}

static void call_with(const ops_case *c, const ops_values *values, const int *types, const mx_field *f,
                      const char *text)
{
    MX_SCOPE;
    attempt a = right_call(c, values, types);
    a.attrs = malloc(c->op->schema->size);
    memcpy(a.attrs, c->attrs, c->op->schema->size);
    now("%s=%s", f->name, text);
    if (!mx_schema_set(c->op->schema, a.attrs, c->op->name, f->name, text))
        attempt_call(&a, false);
    mx_error_clear();
    free(a.attrs);
}

static void wrong_attributes(const ops_case *c, const ops_values *values, const int *types)
{
    const mx_schema *schema = c->op->schema;
    char spare[8192], choice[64];
    if (!schema || schema->size > sizeof spare)
        return;
    for (int i = 0; i < schema->count; i++) {
        const mx_field *f = &schema->fields[i];
        memcpy(spare, c->attrs, schema->size);
        unparsable(c, f, spare);
        for (int v = 0; v < odd_values[f->type].count; v++)
            call_with(c, values, types, f, odd_values[f->type].values[v]);
        for (int v = 0; f->type == MX_FIELD_ENUM && mx_rule_choice(f->rule, v, choice); v++)
            call_with(c, values, types, f, choice);
    }
    memcpy(spare, c->attrs, schema->size);
    now("no_such_attribute=1");
    mx_code code = mx_schema_set(schema, spare, c->op->name, "no_such_attribute", "1");
    if (!code)
        complain(c->op, "was accepted");
    else
        judge_error(c->op, code);
    mx_error_clear();
}

static void missing_attributes(const ops_case *c, const ops_values *values, const int *types)
{
    MX_SCOPE;
    attempt a = right_call(c, values, types);
    bool required = false;
    for (int i = 0; c->op->schema && i < c->op->schema->count; i++)
        required |= !c->op->schema->fields[i].fallback;
    a.attrs = NULL;
    now("default attributes");
    attempt_call(&a, required);
}

/* An output array of another shape, another type, or none of the library's. */
static void wrong_outputs(const ops_case *c, const ops_values *values, const int *types)
{
    static const mx_shape_t odd = {.ndim = 3, .dim = {3, 1, 7}};
    for (int kind = 0; kind < 3 && c->n_visible; kind++) {
        MX_SCOPE;
        attempt a = right_call(c, values, types);
        mx_array *out[MX_MAX_OUTPUTS] = {NULL};
        static stranger text;
        mx_object_init(&text.object, &stranger_kind);
        out[0] = kind == 0 ? ops_array(&odd, MX_FLOAT32, NULL, false) : kind == 1 ? MX_NONE : (mx_array *)&text;
        now("out is %s", kind == 0 ? "of shape (3, 1, 7)" : kind == 1 ? "MX_NONE" : "a text object");
        mx_error_clear();
        mx_code code = mx_invoke(a.op, a.attrs, a.n_in, a.in, MX_MAX_OUTPUTS, out);
        if (code)
            judge_error(a.op, code);
        else if (kind)
            complain(a.op, "succeeded, wanted an error");
        mx_error_clear();
    }
}

/* ---- one operator --------------------------------------------------------------------------------------- */

static void all_attempts(const ops_case *c, const ops_values *values, const int *types)
{
    wrong_counts(c, values, types);
    wrong_objects(c, values, types);
    wrong_ranks(c, values, types);
    wrong_types(c, values, types);
    wrong_values(c, values, types);
    huge_shapes(c, values, types);
    wrong_attributes(c, values, types);
    missing_attributes(c, values, types);
    wrong_outputs(c, values, types);
}

static void limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit limit = {CHILD_BYTES, CHILD_BYTES};
    setrlimit(RLIMIT_AS, &limit);
#endif
}

static void child(mx_op *op)
{
    ops_case c;
    ops_values values;
    int types[OPS_MAX_IN];
    limit_memory();
    alarm(SECONDS_PER_OP);
    now("a sample that runs");
    if (!start(op, &c, types, &values)) {
        complain(op, "none of the samples runs");
        return;
    }
    all_attempts(&c, &values, types); /* fills the caches */
    const int calls = shared->calls;
    shared->quiet = true;
    const int64_t before = mx_alloc_get_stats().live_blocks;
    all_attempts(&c, &values, types);
    const int64_t after = mx_alloc_get_stats().live_blocks;
    shared->quiet = false;
    shared->calls = calls;
    now("all wrong calls");
    if (after > before)
        complain(op, "%lld blocks leaked", (long long)(after - before));
    ops_values_free(&values);
    ops_case_close(&c);
}

static int total_calls;

static void test_operator(void **state)
{
    mx_op *op = *state;
    int status = 0;
    *shared = (struct shared){.doing = ""};
    fflush(stdout);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        for (int s = 1; s < 32; s++) /* let signals kill: the parent reports them */
            if (s == SIGSEGV || s == SIGFPE || s == SIGILL || s == SIGBUS || s == SIGABRT)
                signal(s, SIG_DFL);
        mx_alloc_set_limit((size_t)1 << 30); /* a legal result of many gigabytes would only take time */
        child(op);
        fflush(stdout);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    total_calls += shared->calls;
    if (WIFSIGNALED(status))
        fail_msg("%s: %s: %s (signal %d)", op->name, shared->doing,
                 WTERMSIG(status) == SIGALRM ? "does not end" : "died", WTERMSIG(status));
    if (WEXITSTATUS(status))
        fail_msg("%s: %s: the process ended with code %d", op->name, shared->doing, WEXITSTATUS(status));
    if (shared->failures)
        fail_msg("%s: %d of %d wrong calls were not handled", op->name, shared->failures, shared->calls);
}

int main(int argc, char **argv)
{
    int count = 0, used = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return perror("mmap"), 1;
    while (mx_op_at(count))
        count++;
    struct CMUnitTest *tests = calloc((size_t)count + 1, sizeof *tests);
    for (int i = 0; i < count; i++) {
        bool chosen = argc < 2;
        for (int k = 1; k < argc; k++)
            chosen |= !strcmp(argv[k], mx_op_at(i)->name);
        if (chosen && !(mx_op_at(i)->flags & (MX_OP_CALLS | MX_OP_EXPANDS))) /* they have no samples */
            tests[used++] = (struct CMUnitTest){mx_op_at(i)->name, test_operator, NULL, NULL, mx_op_at(i)};
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int failed = _cmocka_run_group_tests("wrong calls", tests, (size_t)used, NULL, NULL);
    printf("%d operators, %d wrong calls\n", used, total_calls);
    free(tests);
    return failed != 0;
}
