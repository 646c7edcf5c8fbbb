/* Event files from C: every kind of value, and failing allocations.  tests/python/test_tensorboard.py looks at the contents.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "gluon.h"

static char folder[128];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/gluon_summary_%d", (int)getpid());
    mx_error_clear();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rmdir(folder);
    return 0;
}

/* Number of records of a file, which must be complete; removes it. */
static int count_records(const char *path)
{
    int64_t size = 0;
    unsigned char *bytes = mx_file_read(path, 1 << 24, &size);
    int records = 0;
    assert_non_null(bytes);
    for (int64_t at = 0; at < size; records++) {
        assert_true(at + 16 <= size);
        for (int i = 3; i < 8; i++)
            assert_int_equal(bytes[at + i], 0);
        at += 16 + (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16);
        assert_true(at <= size);
    }
    mx_free(bytes, (size_t)size + 1);
    unlink(path);
    return records;
}

static mx_code write_all(mx_summary_writer *log)
{
    static const char *const names[] = {"lr", "kind", "fast"}, *const values[] = {"0.1", "sgd", "True"},
                             *const metrics[] = {"loss"};
    mx_block *net = mx_hybrid_sequential(mx_dense(4, .activation = "relu"), mx_dense(2));
    mx_symbol *symbol = mx_trace(net, mx_variable("data", .shape = MX_DIMS(3, 5)));
    mx_code code = symbol ? mx_summary_graph(log, symbol, NULL) : mx_error_code();
    code = code ? code : mx_summary_scalar(log, "loss", 0.5, 1);
    code = code ? code : mx_summary_text(log, "note", "text", 1);
    code = code ? code : mx_summary_histogram(log, "w", mx_ones(.shape = MX_DIMS(10)), 8, 1);
    return code ? code : mx_summary_hparams(log, &(struct mx_hparams){3, names, values, 1, metrics});
}

static void test_every_kind(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_summary_writer *log = mx_summary_writer_new(folder);
    assert_non_null(log);
    if (write_all(log))
        fail_msg("%s", mx_error_message());
    assert_int_equal(count_records(mx_summary_path(log)), 1 + 4 + 3);
}

static void test_wrong_arguments(void **state)
{
    (void)state;
    MX_SCOPE;
    static const char *const missing[] = {NULL};
    mx_summary_writer *log = mx_summary_writer_new(folder);
    assert_int_not_equal(mx_summary_graph(log, NULL, NULL), MX_OK);
    mx_error_clear();
    assert_int_not_equal(mx_summary_hparams(log, NULL), MX_OK);
    mx_error_clear();
    assert_int_not_equal(mx_summary_hparams(log, &(struct mx_hparams){1, missing, missing, 0, NULL}), MX_OK);
    assert_non_null(strstr(mx_error_message(), "hyperparameter 0 has no name"));
    mx_error_clear();
    assert_int_equal(count_records(mx_summary_path(log)), 1);
}

/* Every allocation fails once: an error, and a file of complete records. */
static void test_failing_allocations(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t n = 1; n < 5000 && !done; n += n < 200 ? 1 : 7) {
        MX_SCOPE;
        mx_summary_writer *log = mx_summary_writer_new(folder);
        mx_alloc_fail_at(n);
        const mx_code code = write_all(log);
        mx_alloc_fail_at(0);
        done = code == MX_OK;
        mx_error_clear();
        assert_in_range(count_records(mx_summary_path(log)), 1, 8);
    }
    assert_true(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
