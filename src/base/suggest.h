/* "did you mean": the name closest to one that does not exist.
 *
 *     mx_suggestion s = {.word = "lr"};
 *     for (...) mx_suggest(&s, name);
 *     mx_fail(..., "there is no '%s'%s", "lr", mx_suggest_text(&s));      ; did you mean 'learning_rate'?
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_SUGGEST_H
#define MX_BASE_SUGGEST_H

typedef struct mx_suggestion {
    const char *word;
    const char *best; /* NULL: no name is close */
    int distance;     /* of it */
    char text[128];   /* of mx_suggest_text */
} mx_suggestion;

void mx_suggest(mx_suggestion *s, const char *name);
const char *mx_suggest_text(mx_suggestion *s); /* "; did you mean 'name'?" or "" */

#endif
