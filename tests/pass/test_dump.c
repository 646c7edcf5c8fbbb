/* MXNET_PLAN_DUMP: every plan is written into the folder after every pass, as text and as a drawing.
 *
 * ctest-levels: best (files are the same at every level)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <unistd.h>

#include "block_check.h"

static char folder[] = "/tmp/gluon_dump_XXXXXX";

static void check_dump(const char *name, const char *part)
{
    char path[512], text[8192];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    unlink(path);
    if (!strstr(text, part))
        fail_msg("%s does not contain '%s':\n%s", name, part, text);
}

static mx_array *formula(mx_block *self, mx_arrays in) { return (void)self, mx_relu(mx_add(in.v[0], in.v[0])); }

static void test_files(void **state)
{
    (void)state;
    MX_SCOPE;
    mx_block *block = mx_block_new("Formula", formula, .hybrid = true);
    mx_hybridize(block);
    mx_call(block, check_array(MX_DIMS(2, 3), 1));
    check_no_error();
    DIR *all = opendir(folder);
    int texts = 0, drawings = 0, last = -1;
    char names[64][256];
    for (struct dirent *entry; (entry = readdir(all));) {
        if (entry->d_name[0] == '.')
            continue;
        assert_true(texts + drawings < 64);
        strcpy(names[texts + drawings], entry->d_name);
        *(strstr(entry->d_name, ".dot") ? &drawings : &texts) += 1;
    }
    closedir(all);
    assert_true(texts > 5 && texts == drawings); /* one of each per pass */
    for (int i = 0; i < texts + drawings; i++) {
        last = strstr(names[i], "-pointwise.txt") ? i : last;
        if (!strstr(names[i], "-pointwise.txt"))
            check_dump(names[i], strstr(names[i], ".dot") ? "digraph plan {" : "input 0");
    }
    assert_true(last >= 0);
    check_dump(names[last], "_pointwise(");
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    setenv("MXNET_PLAN_DUMP", mkdtemp(folder), 1); /* flags are read once */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
