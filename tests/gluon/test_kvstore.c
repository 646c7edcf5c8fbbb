/* Key-value stores: sums over contexts, keys, updaters, rows, compression, saved states.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "gluon/kvstore.h"
#include "gluon/nn.gen.h"
#include "gluon/op.gen.h"
#include "gluon/sparse.h"

#define W mx_id_name("w")

static void assert_error(mx_code code, const char *part)
{
    assert_int_equal(mx_error_code(), code);
    if (!strstr(mx_error_message(), part))
        fail_msg("'%s' does not say '%s'", mx_error_message(), part);
    mx_error_clear();
}

static void assert_fine(void)
{
    if (mx_error_code())
        fail_msg("%s", mx_error_message());
}

static mx_array *filled(double value, int cpu)
{
    mx_array *x = mx_empty(MX_DIMS(4), MX_FLOAT32, mx_cpu(cpu));
    mx_array_fill(x, value);
    return x;
}

/* All elements of x are `wanted`. */
static void assert_all(const mx_array *x, double wanted)
{
    double v[4];
    assert_fine();
    mx_array_read_doubles(x, v, 4);
    for (int i = 0; i < 4; i++)
        if (!(fabs(v[i] - wanted) < 1e-6))
            fail_msg("element %d is %g, wanted %g", i, v[i], wanted);
}

static void assert_stored(mx_kvstore *store, mx_id key, double wanted)
{
    mx_array *outs[2] = {filled(-1, 0), filled(-1, 1)};
    mx_kvstore_pull(store, key, (mx_arrays){outs, 2});
    assert_all(outs[0], wanted);
    assert_all(outs[1], wanted);
}

static void pushes_are_summed(void **state)
{
    (void)state;
    static const char *const types[] = {"local", "device", "NCCL"};
    for (int i = 0; i < 3; i++) {
        MX_SCOPE;
        mx_kvstore *store = mx_kvstore_new(types[i]);
        assert_string_equal(mx_kvstore_type(store), i == 2 ? "nccl" : types[i]);
        assert_int_equal(mx_kvstore_rank(store), 0);
        assert_int_equal(mx_kvstore_num_workers(store), 1);
        mx_array *first = filled(1, 0);
        mx_kvstore_init(store, mx_id_number(3), first);
        mx_array_fill(first, 9); /* the store has a copy */
        assert_stored(store, mx_id_number(3), 1);
        mx_kvstore_push(store, mx_id_number(3), MX_ARRAYS(filled(1, 0), filled(2, 1), filled(4, 0)));
        assert_stored(store, mx_id_number(3), 7);
        mx_array *pushed = filled(5, 1);
        mx_kvstore_push(store, mx_id_number(3), MX_ARRAYS(pushed));
        mx_array_fill(pushed, 6);
        assert_stored(store, mx_id_number(3), 5);
        mx_array *out = filled(0, 0);
        mx_kvstore_pushpull(store, mx_id_number(3), MX_ARRAYS(filled(1, 0), filled(1, 1)), MX_ARRAYS(out));
        assert_all(out, 2);
        mx_kvstore_broadcast(store, mx_id_number(4), filled(8, 0), MX_ARRAYS(out));
        assert_all(out, 8);
    }
}

static void keys_are_checked(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_kvstore *store = mx_kvstore_new("local");
    mx_kvstore_init(store, W, filled(1, 0));
    mx_kvstore_init(store, W, filled(1, 0));
    assert_error(MX_ERR_STATE, "'w' was initialized before");
    mx_kvstore_push(store, mx_id_name("v"), MX_ARRAYS(filled(1, 0)));
    assert_error(MX_ERR_STATE, "'v' was not initialized");
    mx_kvstore_init(store, mx_id_number(1), filled(1, 0));
    assert_error(MX_ERR_ARGUMENT, "all ints or all strings");
    mx_kvstore_pull(store, W, MX_ARRAYS(mx_empty(MX_DIMS(2), MX_FLOAT32, mx_cpu(0))));
    assert_error(MX_ERR_SHAPE, "(2,)");
    mx_kvstore_push(store, W, (mx_arrays){NULL, 0});
    assert_error(MX_ERR_ARGUMENT, "0 arrays");
    assert_null(mx_kvstore_new("byteps"));
    assert_error(MX_ERR_UNSUPPORTED, "dist_sync");
    assert_null(mx_kvstore_new("nope"));
    assert_error(MX_ERR_ARGUMENT, "local_allreduce_device");
    assert_null(mx_kvstore_new(NULL));
    assert_error(MX_ERR_ARGUMENT, "NULL");
}

static void optimizers_update_what_is_stored(void **state)
{
    (void)state;
    MX_SCOPE;
    char path[] = "/tmp/gluon-kvstore-XXXXXX";
    close(mkstemp(path));
    mx_kvstore *store = mx_kvstore_new("device"), *other = mx_kvstore_new("device");
    mx_kvstore_save_optimizer_states(store, path);
    assert_error(MX_ERR_STATE, "no optimizer");
    mx_kvstore_init(store, W, filled(1, 0));
    mx_kvstore_set_optimizer(store, mx_sgd(.learning_rate = 0.5, .momentum = 0.5));
    for (int i = 0; i < 2; i++)
        mx_kvstore_push(store, W, MX_ARRAYS(filled(1, 0), filled(1, 1)));
    assert_stored(store, W, 1 - 1 - 1.5);
    mx_kvstore_save_optimizer_states(store, path);
    mx_kvstore_init(other, W, filled(-1.5, 0));
    mx_kvstore_set_optimizer(other, mx_sgd(.learning_rate = 0.5, .momentum = 0.5));
    mx_kvstore_load_optimizer_states(other, path);
    mx_kvstore_push(store, W, MX_ARRAYS(filled(1, 0)));
    mx_kvstore_push(other, W, MX_ARRAYS(filled(1, 0)));
    assert_stored(store, W, -1.5 - 1.25);
    assert_stored(other, W, -1.5 - 1.25);
    assert_int_equal(mx_optimizer_num_update(mx_updater_optimizer(mx_kvstore_updater(other))), 3);
    unlink(path);
}

typedef struct own {
    int calls, released;
    bool refuse;
} own;
static mx_code update_own(void *user, mx_id key, mx_array *pushed, mx_array *stored)
{
    own *o = user;
    assert_string_equal(key.name, "w");
    assert_false(mx_is_recording()); /* even if the push is in the middle of a recorded step */
    o->calls++;
    return o->refuse ? MX_ERR_CALLBACK : mx_array_set(stored, mx_add(stored, pushed));
}
static void release_own(void *user) { ((own *)user)->released++; }

static void functions_can_update(void **state)
{
    (void)state;
    own o = {0};
    {
        MX_SCOPE;
        mx_kvstore *store = mx_kvstore_new("local");
        mx_kvstore_init(store, W, filled(1, 0));
        mx_kvstore_set_updater_fn(store, update_own, &o, release_own);
        mx_kvstore_push(store, W, MX_ARRAYS(filled(2, 0), filled(3, 1)));
        assert_stored(store, W, 6);
        o.refuse = true;
        mx_kvstore_push(store, W, MX_ARRAYS(filled(2, 0)));
        assert_error(MX_ERR_CALLBACK, "'w'");
        assert_null(mx_kvstore_updater(store));
    }
    assert_int_equal(o.calls, 2);
    assert_int_equal(o.released, 1);
}

/* Over 40 steps of 0.3 in units of 0.5 the sums agree to one unit. */
static void compression_loses_nothing(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_kvstore *store = mx_kvstore_new("device");
    mx_array *out = filled(0, 0);
    double sum = 0, v[4];
    mx_kvstore_init(store, W, filled(0, 0));
    mx_kvstore_set_gradient_compression(store, "2bit", 0.5);
    for (int i = 0; i < 40; i++) {
        mx_kvstore_pushpull(store, W, MX_ARRAYS(filled(0.3, 0), filled(-0.1, 1)), MX_ARRAYS(out));
        assert_fine();
        mx_array_read_doubles(out, v, 4);
        assert_true(v[0] == 0 || v[0] == 0.5 || v[0] == -0.5); /* two contexts, at most a unit each */
        sum += v[0];
    }
    assert_true(fabs(sum - 40 * 0.2) <= 1);
    mx_kvstore_push(store, W, MX_ARRAYS(filled(0.3, 0))); /* one context sends nothing */
    assert_stored(store, W, 0.3);
    mx_kvstore_set_gradient_compression(store, "none", 0);
    mx_kvstore_push(store, W, MX_ARRAYS(filled(0.3, 0), filled(0.3, 1)));
    assert_stored(store, W, 0.6);
    mx_kvstore_set_gradient_compression(store, "3bit", 0.5);
    assert_error(MX_ERR_ATTRIBUTE, "3bit");
    mx_kvstore_set_gradient_compression(store, "2bit", 0);
    assert_error(MX_ERR_ATTRIBUTE, "threshold=0");
    mx_kvstore_set_gradient_compression(mx_kvstore_new("local"), "2bit", 0.5);
    assert_error(MX_ERR_UNSUPPORTED, "only 'device' stores");
}

static void rows_are_pulled(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_kvstore *store = mx_kvstore_new("local");
    const double numbers[3] = {2, 0, 2};
    double v[8], wanted[8] = {0, 1, 0, 0, 4, 5, 0, 0};
    mx_array *value = mx_reshape(mx_arange(.start = 0, .stop = 8), .shape = MX_DIMS(4, 2));
    mx_array *rows = mx_array_from(MX_DIMS(3), MX_FLOAT64, numbers);
    mx_array *out = mx_sparse_zeros(MX_ROW_SPARSE, MX_DIMS(4, 2), MX_FLOAT32, mx_cpu(0));
    mx_kvstore_init(store, mx_id_name("dense"), value);
    mx_kvstore_init(store, mx_id_name("sparse"), mx_tostype(value, MX_ROW_SPARSE));
    for (int i = 0; i < 2; i++) {
        mx_kvstore_row_sparse_pull(store, mx_id_name(i ? "sparse" : "dense"), out, rows);
        assert_fine();
        assert_int_equal(mx_sparse_count(out), 2);
        mx_array_read_doubles(mx_tostype(out, MX_STYPE_DEFAULT), v, 8);
        for (int k = 0; k < 8; k++)
            assert_true(v[k] == wanted[k]);
    }
    mx_kvstore_push(store, mx_id_name("sparse"), MX_ARRAYS(out, out)); /* sums of sparse values are sparse */
    mx_kvstore_row_sparse_pull(store, mx_id_name("sparse"), out, rows);
    mx_array_read_doubles(mx_tostype(out, MX_STYPE_DEFAULT), v, 8);
    assert_true(v[5] == 10);
    mx_array *vector = mx_arange(.start = 0, .stop = 4); /* its rows are numbers */
    out = mx_sparse_zeros(MX_ROW_SPARSE, MX_DIMS(4), MX_FLOAT32, mx_cpu(0));
    mx_kvstore_init(store, mx_id_name("vector"), vector);
    mx_kvstore_row_sparse_pull(store, mx_id_name("vector"), out, rows);
    assert_fine();
    mx_array_read_doubles(mx_tostype(out, MX_STYPE_DEFAULT), v, 4);
    assert_true(v[0] == 0 && v[1] == 0 && v[2] == 2 && v[3] == 0);
    mx_kvstore_row_sparse_pull(store, mx_id_name("dense"), value, rows);
    assert_error(MX_ERR_ARGUMENT, "'default'");
}

/* What a new store of several processes writes to stderr, in a process of its own: it says so once. */
static void ignored_variables_are_named(void **state)
{
    (void)state;
    int ends[2];
    char text[512] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        MX_SCOPE;
        dup2(ends[1], 2);
        setenv("MXNET_KVSTORE_USETREE", "1", 1);
        setenv("MXNET_KVLESS", "1", 1);
        const bool both = mx_kvstore_new("dist_sync") && mx_kvstore_new("dist_sync");
        _exit(both ? 0 : 77);
    }
    close(ends[1]);
    int status;
    for (ssize_t n, at = 0; (n = read(ends[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
        at += n;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* built without MPI */
    assert_int_equal(status, 0);
    const char *named = strstr(text, "ignored: MXNET_KVSTORE_USETREE;");
    assert_non_null(named);
    assert_null(strstr(named + 9, "ignored: "));
}

static void nothing_leaks_when_memory_runs_out(void **state)
{
    (void)state;
    for (int n = 1; n < 80; n++) {
        const int64_t before = mx_alloc_get_stats().live_blocks;
        mx_scoped() {
            mx_array *a = filled(1, 0), *b = filled(1, 1);
            mx_alloc_fail_at(n);
            mx_kvstore *store = mx_kvstore_new("device");
            if (store) {
                mx_kvstore_init(store, W, a);
                mx_kvstore_set_gradient_compression(store, "2bit", 0.5);
                mx_optimizer *o = mx_adam();
                if (o)
                    mx_kvstore_set_optimizer(store, o);
                mx_kvstore_push(store, W, MX_ARRAYS(a, b));
                mx_kvstore_pull(store, W, MX_ARRAYS(a, b));
            }
            mx_alloc_fail_at(0);
            mx_error_clear();
        }
        assert_true(mx_alloc_get_stats().live_blocks <= before + 2); /* caches may grow once */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushes_are_summed),
        cmocka_unit_test(keys_are_checked),
        cmocka_unit_test(optimizers_update_what_is_stored),
        cmocka_unit_test(functions_can_update),
        cmocka_unit_test(compression_loses_nothing),
        cmocka_unit_test(rows_are_pulled),
        cmocka_unit_test(ignored_variables_are_named),
        cmocka_unit_test(nothing_leaks_when_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
