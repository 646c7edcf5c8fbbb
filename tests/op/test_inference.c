/* What inference answers, for every operator: its samples, and the same calls with one thing changed.
 *
 * tests/op/inference.gen.txt holds one letter per call: what was inferred (a hash of all shapes and types, as a letter
 * or digit) or which error came (its code and message, as a sign).  So a rule that accepts more or less than before, that
 * infers something else or says something else is noticed here, also for calls that no other test makes.  After an
 * intended change:
 *
 *     test_op_inference -w        writes the file again; look at the difference
 *
 * ctest-levels: best (nothing is computed)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "op/expand.h"
#include "ops_case.h"

#define FILE_NAME GLUON_SOURCE_DIR "/tests/op/inference.gen.txt"
#define SAMPLES 6  /* of an operator, at most */
#define LETTERS (1 << 14) /* of an operator, at most */
#define INPUTS 8   /* that are changed, at most */

/* One call: what is known before inference, what is known afterwards. */
typedef struct call {
    const mx_op *op;
    char attrs[4096];
    int n_in, n_out;
    mx_shape_t in[OPS_MAX_IN], out[MX_MAX_OUTPUTS];
    int in_type[OPS_MAX_IN], out_type[MX_MAX_OUTPUTS];
} call;

/* The letters of one operator, and those that the file has. */
static struct record {
    char letters[LETTERS];
    const char *wanted;
    int n, known, different; /* letters; letters that are wanted; those that differ */
    const char *op;
    int sample;
} record;

static uint64_t mix(uint64_t hash, const mx_shape_t *shapes, const int *types, int n)
{
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)(shapes[i].ndim + 2)) * 1099511628211u;
        hash = (hash ^ (uint64_t)(types[i] + 7)) * 1099511628211u;
        for (int k = 0; k < shapes[i].ndim; k++)
            hash = (hash ^ (uint64_t)shapes[i].dim[k]) * 1099511628211u;
    }
    return hash;
}

/* The sign of the error that has come. */
static char sign(mx_code code)
{
    static const char signs[] = "!\"#$%&'()*+,-./:;<=>?@[]^_{|}~";
    uint64_t hash = (uint64_t)code;
    for (const char *p = mx_error_message(); *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    mx_error_clear();
    return signs[(hash ^ hash >> 32) % (sizeof signs - 1)];
}

/* The letter of what was inferred, or a sign. */
static char answer(call *c)
{
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    mx_infer infer = {c->op, c->attrs, c->n_in, c->n_out, c->in, c->out, c->in_type, c->out_type, NULL};
    const mx_schema *schema = c->op->schema;
    mx_error_clear();
    mx_code code = schema ? mx_schema_check(schema, c->attrs, c->op->name) : MX_OK;
    code = code ? code : c->op->check ? c->op->check(c->attrs) : MX_OK;
    if (!code) {
        c->n_out = infer.n_out = mx_op_count_out(c->op, c->attrs);
        code = infer.n_out < 0 || infer.n_out > MX_MAX_OUTPUTS ? MX_ERR_ARGUMENT : mx_op_infer(&infer);
    }
    if (code)
        return sign(code);
    mx_error_clear();
    uint64_t hash = mix(mix(14695981039346656037u, c->in, c->in_type, c->n_in), c->out, c->out_type, c->n_out);
    hash = (hash ^ (uint64_t)mx_op_count_visible(c->op, c->attrs)) * 1099511628211u;
    return letters[(hash ^ hash >> 32) % (sizeof letters - 1)];
}

/* Infers what is unknown. */
static bool is_valid(call *c) { return isalnum(answer(c)); }

/* Appends the answer to a call, which the words describe. */
static void append(char found, const char *format, ...) MX_PRINTF(2, 3);
static void append(char found, const char *format, ...)
{
    assert_true(record.n < LETTERS - 2);
    record.letters[record.n++] = found;
    const char wanted = record.n <= record.known ? record.wanted[record.n - 1] : found;
    if (wanted == found || record.different++ >= 5)
        return;
    va_list args;
    printf("  %s, sample %d, ", record.op, record.sample);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf(": the answer is '%c', wanted '%c' (letters: what is inferred, signs: errors)\n", found, wanted);
}

static char answer_of(call c) { return answer(&c); }
#define ask(call, ...) append(answer_of(*(call)), __VA_ARGS__)

/* ---- what is changed -------------------------------------------------------------------------------------------- */

static void change_shape(const call *from, mx_shape_t *shape, const char *which, int i)
{
    const mx_shape_t old = *shape;
    if (old.ndim < 0)
        return;
    for (int axis = 0; axis < old.ndim; axis++, *shape = old) {
        shape->dim[axis] = old.dim[axis] + 1;
        ask(from, "%s %d with axis %d longer by one", which, i, axis);
        shape->dim[axis] = old.dim[axis] ? old.dim[axis] - 1 : 2;
        ask(from, "%s %d with axis %d shorter by one", which, i, axis);
        shape->dim[axis] = -1;
        ask(from, "%s %d with axis %d unknown", which, i, axis);
        shape->dim[axis] = (int64_t)1 << 33;
        ask(from, "%s %d with a very long axis %d", which, i, axis);
    }
    if (old.ndim < MX_MAX_NDIM) {
        shape->dim[shape->ndim++] = 1;
        ask(from, "%s %d with one more axis", which, i);
    }
    *shape = old;
    if (old.ndim) {
        shape->ndim--;
        ask(from, "%s %d with one axis less", which, i);
    }
    *shape = MX_UNKNOWN_SHAPE;
    ask(from, "%s %d unknown", which, i);
    *shape = old;
}

static void change_type(const call *from, int *type, const char *which, int i)
{
    static const int types[] = {MX_FLOAT64, MX_FLOAT16, MX_INT32, MX_INT8, MX_DTYPE_NONE};
    const int old = *type;
    for (size_t k = 0; old != MX_DTYPE_NONE && k < sizeof types / sizeof *types; k++) {
        *type = types[k];
        if (types[k] != old)
            ask(from, "%s %d of type %d", which, i, types[k]);
    }
    *type = old;
}

static void change_inputs(call *c)
{
    for (int i = 0; i < c->n_in && i < INPUTS; i++) {
        change_shape(c, &c->in[i], "input", i);
        change_type(c, &c->in_type[i], "input", i);
    }
    if (c->op->flags & MX_OP_LIST && c->n_in > 0) {
        call fewer = *c;
        fewer.n_in--;
        ask(&fewer, "one input less");
    }
}

/* Results that are known, with and without the inputs. */
static void change_outputs(call *c)
{
    call known = *c;
    if (!is_valid(&known) || known.n_out < 1)
        return;
    memcpy(known.in, c->in, sizeof c->in), memcpy(known.in_type, c->in_type, sizeof c->in_type);
    for (int k = 0; k < known.n_out && k < 3; k++) {
        change_shape(&known, &known.out[k], "output", k);
        change_type(&known, &known.out_type[k], "output", k);
    }
    for (int i = 0; i < c->n_in && i < INPUTS; i++) /* sizes that follow from the results */
        for (int last = 0; last < c->in[i].ndim; last++, known.in[i] = c->in[i]) {
            known.in[i].dim[last] = -1;
            ask(&known, "all outputs known, axis %d of input %d unknown", last, i);
            for (int axis = 0; axis < last; axis++)
                known.in[i].dim[axis] = -1;
            if (last)
                ask(&known, "all outputs known, axes up to %d of input %d unknown", last, i);
        }
    for (int i = 0; i < c->n_in; i++) {
        known.in[i] = MX_UNKNOWN_SHAPE, known.in_type[i] = MX_DTYPE_NONE;
        if (c->in[i].ndim >= 0 && i < INPUTS)
            ask(&known, "all outputs known, inputs up to %d unknown", i);
    }
}

static void with_attribute(const call *from, const mx_field *f, const char *text)
{
    call c = *from;
    const mx_code code = mx_schema_set(c.op->schema, c.attrs, c.op->name, f->name, text);
    append(code ? sign(code) : answer(&c), "%s=%s", f->name, text);
}

/* The call with another list of numbers, which memcpy writes: the compiler takes attrs for characters. */
static call with_dims(const call *from, const mx_field *f, mx_dims dims)
{
    call c = *from;
    memcpy(c.attrs + f->offset, &dims, sizeof dims);
    return c;
}
#define ask_dims(from, f, dims, ...) append(answer_of(with_dims(from, f, dims)), __VA_ARGS__)

/* "(2, 3)" with one element changed, one more, one less. */
static void change_dims(const call *from, const mx_field *f)
{
    mx_dims old, dims;
    memcpy(&old, from->attrs + f->offset, sizeof old);
    dims = old;
    for (int i = 0; i < old.n; i++, dims = old) {
        if (old.d[i] == MX_NONE_INT)
            continue;
        dims.d[i] = old.d[i] + 1;
        ask_dims(from, f, dims, "%s with element %d larger by one", f->name, i);
        dims.d[i] = old.d[i] - 1;
        ask_dims(from, f, dims, "%s with element %d smaller by one", f->name, i);
        dims.d[i] = 0;
        ask_dims(from, f, dims, "%s with element %d zero", f->name, i);
    }
    if (old.n > 0) {
        dims.n--;
        ask_dims(from, f, dims, "%s with one element less", f->name);
    }
    dims = old;
    with_attribute(from, f, "()");
    if (old.n < 0)
        with_attribute(from, f, "(1,)"), with_attribute(from, f, "(2, 2)");
    else if (old.n < (int)(sizeof old.d / sizeof *old.d)) {
        dims.d[dims.n++] = 1;
        ask_dims(from, f, dims, "%s with one element more", f->name);
    }
}

static void change_integer(const call *from, const mx_field *f)
{
    const int64_t old = *(const int64_t *)(from->attrs + f->offset);
    char text[32];
    if (old != MX_NONE_INT)
        for (int by = -1; by <= 1; by += 2) {
            snprintf(text, sizeof text, "%lld", (long long)old + by);
            with_attribute(from, f, text);
        }
    with_attribute(from, f, "-1"), with_attribute(from, f, "0"), with_attribute(from, f, "5");
    with_attribute(from, f, "2147483648");
}

static void change_attributes(const call *c)
{
    char choice[64];
    for (int i = 0; c->op->schema && i < c->op->schema->count; i++) {
        const mx_field *f = &c->op->schema->fields[i];
        with_attribute(c, f, "(7, no)");
        if (f->type == MX_FIELD_BOOL)
            with_attribute(c, f, *(const bool *)(c->attrs + f->offset) ? "False" : "True");
        else if (f->type == MX_FIELD_INT)
            change_integer(c, f);
        else if (f->type == MX_FIELD_FLOAT)
            with_attribute(c, f, "-1"), with_attribute(c, f, "0"), with_attribute(c, f, "1.5");
        else if (f->type == MX_FIELD_FLOATS)
            with_attribute(c, f, "()"), with_attribute(c, f, "(-1,)"), with_attribute(c, f, "(0, 2.5, 3)");
        else if (f->type == MX_FIELD_DTYPE)
            with_attribute(c, f, "float16"), with_attribute(c, f, "int32");
        else if (f->type == MX_FIELD_DIMS)
            change_dims(c, f);
        for (int v = 0; f->type == MX_FIELD_ENUM && mx_rule_choice(f->rule, v, choice); v++)
            with_attribute(c, f, choice);
    }
}

/* ---- operators ---------------------------------------------------------------------------------------------------- */

/* float32, integers as int32; or, where that is refused, what follows from a first input of float32. */
static void choose_types(call *c, const ops_case *sample)
{
    call tried;
    int types[OPS_MAX_IN];
    for (int i = 0; i < c->n_in; i++)
        c->in_type[i] = c->in[i].ndim < 0 ? MX_DTYPE_NONE : sample->integer[i] ? MX_INT32 : MX_FLOAT32;
    tried = *c;
    if (is_valid(&tried) || !ops_types(sample, MX_FLOAT32, 1, types))
        return;
    for (int i = 0; i < c->n_in; i++)
        c->in_type[i] = c->in[i].ndim < 0 ? MX_DTYPE_NONE : types[i];
}

static void ask_sample(mx_op *op, int number)
{
    ops_case sample;
    call c = {.op = op};
    record.sample = number;
    if (!ops_case_open(&sample, op, number))
        return;
    const bool list = op->flags & MX_OP_LIST || sample.n_in > op->declared_inputs;
    c.n_in = list ? sample.n_in : op->declared_inputs, c.n_out = sample.n_out;
    if (op->schema) {
        assert_true(op->schema->size <= sizeof c.attrs);
        memcpy(c.attrs, sample.attrs, op->schema->size);
    }
    for (int i = 0; i < c.n_in; i++)
        c.in[i] = i < sample.n_in && !sample.absent[i] ? sample.shape[i] : MX_UNKNOWN_SHAPE;
    for (int i = 0; i < MX_MAX_OUTPUTS; i++)
        c.out[i] = MX_UNKNOWN_SHAPE, c.out_type[i] = MX_DTYPE_NONE;
    choose_types(&c, &sample);
    ask(&c, "as it is");
    change_inputs(&c);
    change_outputs(&c);
    change_attributes(&c);
    ops_case_close(&sample);
}

static void ask_operator(mx_op *op, const char *wanted)
{
    record = (struct record){.wanted = wanted, .known = (int)strlen(wanted), .op = op->name};
    for (int i = 0; i < SAMPLES && i < ops_sample_count(op); i++)
        ask_sample(op, i);
}

static bool has_line(mx_op *op) { return !(op->flags & MX_OP_CALLS) && !mx_op_expands(op); }

/* ---- the file ------------------------------------------------------------------------------------------------------- */

static char *find_line(char *text, const char *name)
{
    const size_t n = strlen(name);
    for (char *line = text; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, name, n) && line[n] == ' ')
            return line + n + 1;
    return NULL;
}

static char *read_file(void)
{
    FILE *file = fopen(FILE_NAME, "r");
    char *text = calloc(1, 1 << 22);
    if (file && text)
        text[fread(text, 1, (1 << 22) - 1, file)] = 0;
    if (file)
        fclose(file);
    return text;
}

static void test_answers(void **state)
{
    (void)state;
    char *text = read_file(), letters[LETTERS];
    int different = 0;
    for (int i = 0; mx_op_at(i); i++) {
        const char *line = find_line(text, mx_op_at(i)->name);
        if (!has_line(mx_op_at(i)))
            continue;
        snprintf(letters, sizeof letters, "%.*s", line ? (int)strcspn(line, "\n") : 0, line ? line : "");
        ask_operator(mx_op_at(i), letters);
        if (strcmp(letters, record.letters)) {
            printf("  %s: the answers are not those of inference.gen.txt\n", mx_op_at(i)->name);
            different++;
        }
    }
    free(text);
    if (different)
        fail_msg("%d operators infer something else; after an intended change: test_op_inference -w", different);
}

static int write_file(void)
{
    FILE *file = fopen(FILE_NAME, "w");
    if (!file)
        return perror(FILE_NAME), 1;
    fprintf(file,
            "# Written by `test_op_inference -w`: what inference answers to each call of tests/op/test_inference.c.\n");
    for (int i = 0; mx_op_at(i); i++)
        if (has_line(mx_op_at(i))) {
            ask_operator(mx_op_at(i), "");
            fprintf(file, "%s %s\n", mx_op_at(i)->name, record.letters);
        }
    return fclose(file) != 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers)};
    if (argc > 1 && !strcmp(argv[1], "-w"))
        return write_file();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
