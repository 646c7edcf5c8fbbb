/* "did you mean": the closest name, initials, and names that are not close.  SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/suggest.h"

static const char *const names[] = {"learning_rate", "momentum", "wd", "clip_gradient", "lr_scheduler", "sgd", "adam"};

static void assert_suggests(const char *word, const char *text)
{
    mx_suggestion s = {.word = word};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        mx_suggest(&s, names[i]);
    assert_string_equal(mx_suggest_text(&s), text);
}

static void test_suggestions(void **state)
{
    (void)state;
    assert_suggests("learning_rat", "; did you mean 'learning_rate'?");
    assert_suggests("learningrate", "; did you mean 'learning_rate'?");
    assert_suggests("lr", "; did you mean 'learning_rate'?");
    assert_suggests("cg", "; did you mean 'clip_gradient'?");
    assert_suggests("sdg", "; did you mean 'sgd'?");
    assert_suggests("Momentun", "; did you mean 'momentum'?");
    assert_suggests("colour", "");
    assert_suggests("x", "");
    assert_suggests("", "");
    assert_suggests(NULL, "");
    assert_suggests("a_very_long_name_that_is_longer_than_the_letters_which_are_compared_at_all", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_suggestions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
