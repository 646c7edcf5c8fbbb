/* The name closest to a word: by the letters to insert, remove, replace or exchange, or as its initials (lr is
 * learning_rate).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LONGEST 48 /* letters of names that are compared */

static int least(int a, int b) { return a < b ? a : b; }

/* Letters to insert, remove, replace or exchange with their neighbour; case does not count. */
static int distance_of(const char *a, const char *b)
{
    const int n = (int)strnlen(a, LONGEST), m = (int)strnlen(b, LONGEST);
    int row[3][LONGEST + 1]; /* distances of the last three prefixes of a to all prefixes of b */
    for (int k = 0; k <= m; k++)
        row[0][k] = k;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3];
        const int *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int k = 1; k <= m; k++) {
            const int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[k - 1]);
            now[k] = least(least(now[k - 1], last[k]) + 1, last[k - 1] + (x != y));
            if (i > 1 && k > 1 && x == tolower((unsigned char)b[k - 2]) && tolower((unsigned char)a[i - 2]) == y)
                now[k] = least(now[k], before[k - 2] + 1);
        }
    }
    return row[n % 3][m];
}

/* lr: learning_rate; at least two words. */
static int are_initials(const char *word, const char *name)
{
    int i = 0;
    for (const char *p = name; *p; p++)
        if (p == name || p[-1] == '_') {
            if (tolower((unsigned char)word[i]) != tolower((unsigned char)*p))
                return 0;
            i++;
        }
    return i > 1 && !word[i];
}

void mx_suggest(mx_suggestion *s, const char *name)
{
    if (!s->word || !name)
        return;
    const int length = (int)strnlen(s->word, LONGEST), limit = 1 + length / 4;
    const int distance = are_initials(s->word, name) ? 0 : distance_of(s->word, name);
    if (distance > limit || distance >= length || (s->best && distance >= s->distance))
        return;
    s->best = name;
    s->distance = distance;
}

const char *mx_suggest_text(mx_suggestion *s)
{
    s->text[0] = 0;
    if (s->best)
        snprintf(s->text, sizeof s->text, "; did you mean '%s'?", s->best);
    return s->text;
}
