/* The command (see accuracy.h):
 *
 *     accuracy [-n SIZES] [-s SEED] [-o TABLE.md] [-c TABLE.md] [OPERATOR...]      random sizes per sample (default 2)
 *
 * Gradients are compared with finite differences in double, to second order.  Exit status 1 if a result is wrong.  With -o the table of the
 * largest differences is written; with -c they are compared with it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "accuracy.h"
#include "op/expand.h"

typedef struct options {
    int sizes;
    uint64_t seed;
    const char *table, *wanted;
    int count;
    char **names;
} options;

static bool chosen(const options *o, const char *name)
{
    for (int i = 0; i < o->count; i++)
        if (!strcmp(name, o->names[i]))
            return true;
    return !o->count;
}

/* In double and single precision: with less, gradients next to a step or a double eigenvalue are arbitrary. */
static void measure_gradients(const ops_case *c, bool finite)
{
    ops_case exact = *c;
    exact.f32_only = true;
    if (finite)
        ops_check_gradients(&exact);
}

static void measure_sample(mx_op *op, int number, const options *o, accuracy_entry *entry)
{
    ops_case c, other;
    if (!ops_case_open(&c, op, number))
        return;
    uint64_t state = ops_seed(&c, 1000) ^ o->seed;
    if (!c.random && op->reference) {
        accuracy_measure(&c, entry);
        for (int i = 0; i < o->sizes; i++)
            if (accuracy_resize(&c, &state, &other))
                measure_gradients(&other, accuracy_measure(&other, entry));
        if (accuracy_scalar(&c, &other))
            accuracy_measure(&other, entry);
    }
    ops_case_close(&c);
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(mx_op *const *)a)->name, (*(mx_op *const *)b)->name);
}

static void measure_all(mx_op **ops, int count, const options *o, FILE *file)
{
    long calls = 0;
    for (int i = 0; i < count; i++) {
        accuracy_entry entry = {.ulp = {-1, -1, -1, -1}};
        ops_fail_reset();
        if (mx_op_expands(ops[i]) || !chosen(o, ops[i]->name))
            continue;
        for (int k = 0; k < ops_sample_count(ops[i]); k++)
            measure_sample(ops[i], k, o, &entry);
        long here = 0;
        for (int type = 0; type < ACCURACY_TYPES; type++)
            here += entry.calls[type];
        if (file && here && !(ops[i]->flags & MX_OP_HIDDEN))
            accuracy_write(file, ops[i], &entry);
        if (o->wanted)
            accuracy_compare(o->wanted, ops[i], &entry);
        calls += here;
    }
    printf("%ld calls, %d failures\n", calls, ops_total.failures);
}

static bool parse(int argc, char **argv, options *o)
{
    *o = (options){.sizes = 2};
    for (int c; (c = getopt(argc, argv, "n:s:o:c:")) != -1;) {
        if (c == '?')
            return false;
        if (c == 'n')
            o->sizes = atoi(optarg);
        else if (c == 's')
            o->seed = strtoull(optarg, NULL, 10);
        else if (c == 'o')
            o->table = optarg;
        else
            o->wanted = optarg;
    }
    o->count = argc - optind, o->names = argv + optind;
    return true;
}

int main(int argc, char **argv)
{
    options o;
    if (!parse(argc, argv, &o))
        return fprintf(stderr, "accuracy [-n SIZES] [-s SEED] [-o TABLE.md] [-c TABLE.md] [OPERATOR...]\n"), 2;
    int count = 0;
    while (mx_op_at(count))
        count++;
    mx_op **ops = calloc((size_t)count + 1, sizeof(mx_op *));
    for (int i = 0; i < count; i++)
        ops[i] = mx_op_at(i);
    qsort(ops, (size_t)count, sizeof *ops, by_name);
    FILE *file = o.table ? fopen(o.table, "w") : NULL;
    if (o.table && !file)
        return perror(o.table), 2;
    if (file)
        accuracy_write_head(file);
    measure_all(ops, count, &o, file);
    free(ops);
    if (file && fclose(file))
        return perror(o.table), 2;
    return ops_total.failures != 0;
}
