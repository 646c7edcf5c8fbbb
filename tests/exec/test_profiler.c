/* The profiler: what is recorded, the trace, the tables, states, threads, failing memory.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/json.h"
#include "exec/profile.h"
#include "gluon.h"

static char trace[64];

static int start(void **state)
{
    (void)state;
    snprintf(trace, sizeof trace, "/tmp/gluon-profile-%d.json", (int)getpid());
    mx_error_clear();
    mx_profiler_run(false);
    mx_profiler_pause(false);
    mx_the_profile.finished = true; /* the next run begins a new trace */
    MX_SCOPE;
    mx_profiler_table(.reset = true);
    return mx_profiler_config(.filename = trace);
}

static int end(void **state)
{
    (void)state;
    mx_profiler_run(false);
    unlink(trace);
    return mx_has_error();
}

static void work(void)
{
    MX_SCOPE;
    mx_array *x = mx_ones(.shape = MX_DIMS(2, 3));
    mx_add(x, x);
    mx_softmax(mx_add(x, x));
}

static mx_json *read_trace(void)
{
    int64_t size;
    char *text = mx_file_read(trace, 1 << 28, &size);
    assert_non_null(text);
    mx_json *root = mx_json_parse(text, (size_t)size);
    assert_non_null(root);
    mx_free(text, (size_t)size + 1);
    return root;
}

static const char *member_text(const mx_json *object, const char *key)
{
    const mx_json *value = mx_json_get(object, key);
    return value ? mx_json_text(value) : "";
}

/* The i-th event of that name, from 0; NULL: there are fewer. */
static const mx_json *find_event(const mx_json *root, const char *name, int which)
{
    const mx_json *events = mx_json_member(root, "traceEvents", MX_JSON_ARRAY);
    for (int64_t i = 0; i < mx_json_count(events); i++)
        if (!strcmp(member_text(mx_json_at(events, i), "name"), name) && which-- == 0)
            return mx_json_at(events, i);
    return NULL;
}

static double number_of(const mx_json *event, const char *key)
{
    double number = -1;
    assert_true(mx_json_number(mx_json_get(event, key), &number));
    return number;
}

static void test_trace(void **state)
{
    (void)state;
    work(); /* not running: not recorded */
    mx_profiler_run(true);
    assert_true(mx_profiler_running());
    work();
    assert_int_equal(mx_profiler_dump(true), MX_OK);
    assert_false(mx_profiler_running());
    mx_json *root = read_trace();
    const mx_json *first = find_event(root, "softmax", 0);
    assert_non_null(first);
    assert_null(find_event(root, "softmax", 1));
    assert_string_equal(member_text(first, "ph"), "X");
    assert_string_equal(member_text(first, "cat"), "operator");
    assert_string_equal(member_text(mx_json_get(first, "args"), "shapes"), "(2, 3)");
    assert_true(number_of(first, "dur") >= 0 && number_of(first, "dur") < 1e6);
    mx_json_free(root);
}

static void test_finished_begins_anew(void **state)
{
    (void)state;
    mx_profiler_run(true);
    work();
    mx_profiler_dump(false);
    assert_true(mx_profiler_running());
    work();
    mx_profiler_dump(true);
    mx_json *root = read_trace();
    assert_non_null(find_event(root, "softmax", 1));
    assert_null(find_event(root, "softmax", 2));
    mx_json_free(root);
    mx_profiler_run(true);
    work();
    mx_profiler_dump(true);
    root = read_trace();
    assert_null(find_event(root, "softmax", 1));
    mx_json_free(root);
}

static void test_pause_and_choice(void **state)
{
    (void)state;
    mx_profiler_run(true);
    mx_profiler_pause(true);
    work();
    mx_profiler_pause(false);
    mx_profiler_config(.filename = trace, .imperative = false);
    work();
    mx_profiler_dump(true);
    mx_json *root = read_trace();
    assert_null(find_event(root, "softmax", 0));
    mx_json_free(root);
}

static void test_plans(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *net = mx_hybrid_sequential(mx_dense(4, .activation = "relu"), mx_dense(2));
    mx_initialize(net, mx_xavier(), mx_cpu(0));
    mx_array *x = mx_ones(.shape = MX_DIMS(3, 5));
    mx_call(net, x);
    mx_hybridize(net);
    mx_call(net, x);
    mx_profiler_config(.filename = trace, .imperative = false);
    mx_profiler_run(true);
    mx_call(net, x);
    mx_profiler_dump(true);
    mx_json *root = read_trace();
    assert_true(mx_json_count(mx_json_member(root, "traceEvents", MX_JSON_ARRAY)) > 1);
    mx_json_free(root);
    assert_int_equal(mx_check("plans"), 0);
}

static void test_own_events(void **state)
{
    (void)state;
    mx_profiler_run(true);
    const double begin = mx_profiler_now();
    usleep(2000);
    mx_profiler_span("data", "load \"x\"", begin);
    mx_profiler_counter("data", "queue", 3);
    mx_profiler_counter("data", "queue", 5);
    assert_int_equal(mx_profiler_marker("data", "epoch", "global"), MX_OK);
    mx_profiler_dump(true);
    mx_json *root = read_trace();
    assert_true(number_of(find_event(root, "load \"x\"", 0), "dur") >= 2000);
    assert_true(number_of(mx_json_get(find_event(root, "queue", 1), "args"), "queue") == 5);
    assert_string_equal(member_text(find_event(root, "epoch", 0), "s"), "g");
    mx_json_free(root);
    assert_int_equal(mx_profiler_marker("data", "epoch", "everywhere"), MX_ERR_ARGUMENT);
    assert_non_null(strstr(mx_error_message(), "everywhere"));
    mx_error_clear();
}

static void test_table(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_profiler_run(true);
    for (int i = 0; i < 5; i++)
        work();
    mx_profiler_counter("data", "queue", 7);
    mx_profiler_run(false);
    mx_json *root = NULL;
    const char *text = mx_profiler_table(.json = true, .sort_by = "count");
    assert_non_null(root = mx_json_parse(text, strlen(text)));
    const mx_json *operators = mx_json_get(mx_json_get(root, "Time"), "operator");
    const mx_json *softmax = mx_json_get(operators, "softmax");
    assert_true(number_of(softmax, "Count") == 5);
    assert_true(number_of(softmax, "Min") <= number_of(softmax, "Avg"));
    assert_true(number_of(softmax, "Avg") <= number_of(softmax, "Max"));
    assert_true(number_of(mx_json_at(operators, 0), "Count") == 10); /* the sum comes first */
    assert_true(number_of(mx_json_get(mx_json_get(mx_json_get(root, "Counter"), "data"), "queue"), "Max") == 7);
    mx_json_free(root);
    text = mx_profiler_table(.reset = true);
    assert_non_null(strstr(text, "softmax"));
    const char *lines = strstr(text, "\n----"); /* under every word of the header, as long as the word */
    assert_non_null(lines);
    int words = 0;
    for (const char *p = lines + 1; *p != '\n'; p++)
        words += *p == '-' && p[-1] != '-';
    assert_int_equal(words, 6);
    assert_null(mx_profiler_table_make(NULL));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_null(mx_profiler_table(.sort_by = NULL));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
    assert_null(strstr(mx_profiler_table(), "softmax"));
    assert_null(mx_profiler_table(.sort_by = "beauty"));
    assert_int_equal(mx_error_code(), MX_ERR_ARGUMENT);
    mx_error_clear();
}

static void *many(void *unused)
{
    for (int i = 0; i < 200; i++)
        work();
    return unused;
}

static void test_threads(void **state)
{
    (void)state;
    MX_SCOPE;
    pthread_t threads[4];
    mx_profiler_run(true);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    const char *text = mx_profiler_table(.json = true);
    mx_json *root = mx_json_parse(text, strlen(text));
    const mx_json *operators = mx_json_get(mx_json_get(root, "Time"), "operator");
    assert_true(number_of(mx_json_get(operators, "softmax"), "Count") == 800);
    mx_json_free(root);
    assert_int_equal(mx_profiler_dump(true), MX_OK);
    root = read_trace();
    assert_true(number_of(find_event(root, "softmax", 0), "tid") > 0);
    assert_non_null(find_event(root, "softmax", 799));
    mx_json_free(root);
}

/* The earlier file stays intact; a path that cannot be written is named. */
static void test_bad_path(void **state)
{
    (void)state;
    assert_int_equal(mx_profiler_config(.filename = ""), MX_ERR_ARGUMENT);
    mx_error_clear();
    mx_profiler_config(.filename = "/tmp/no such folder/x.json");
    mx_profiler_run(true);
    work();
    assert_int_not_equal(mx_profiler_dump(true), MX_OK);
    assert_non_null(strstr(mx_error_message(), "no such folder"));
    mx_error_clear();
    mx_profiler_config(.filename = trace);
    assert_int_equal(mx_profiler_dump(true), MX_OK); /* nothing was lost */
    mx_json *root = read_trace();
    assert_non_null(find_event(root, "softmax", 0));
    mx_json_free(root);
}

/* Out of memory, events are lost, but no results, and there is no error. */
static void test_no_memory(void **state)
{
    (void)state;
    mx_profiler_run(true);
    for (int64_t n = 1; n < 40; n++) {
        mx_alloc_fail_at(n);
        mx_profiler_span("scarce", "span", mx_profiler_now());
        mx_profiler_counter("scarce again", "counter", 1);
        mx_alloc_fail_at(0);
        assert_false(mx_has_error());
    }
    assert_int_equal(mx_profiler_dump(true), MX_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_trace, start, end),
        cmocka_unit_test_setup_teardown(test_finished_begins_anew, start, end),
        cmocka_unit_test_setup_teardown(test_pause_and_choice, start, end),
        cmocka_unit_test_setup_teardown(test_plans, start, end),
        cmocka_unit_test_setup_teardown(test_own_events, start, end),
        cmocka_unit_test_setup_teardown(test_table, start, end),
        cmocka_unit_test_setup_teardown(test_threads, start, end),
        cmocka_unit_test_setup_teardown(test_bad_path, start, end),
        cmocka_unit_test_setup_teardown(test_no_memory, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
