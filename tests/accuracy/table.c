/* The table of the docs: writing it, and comparing with it (see accuracy.h).  SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"

void accuracy_write_head(FILE *file)
{
    fprintf(
        file,
        "# Accuracy\n\n"
        "The largest difference between an operator's results and a reference in double precision, in ulp (units in the last\n"
        "place of the type), over its samples at random sizes: around the widths of vectors and tiles, 0-d arrays, views into\n"
        "larger arrays. Half an ulp is correct rounding. For functions of single elements the ulp is that of the wanted\n"
        "result; for sums, products and everything else it is that of the largest result of the call, since terms cancel.\n"
        "The column float64 also contains the rounding of the reference. A dash: the operator does not compute in the type.\n\n"
        "`make accuracy` writes this page; it fails if a result is wrong. The numbers are those of the instruction level\n"
        "of the machine that wrote it.\n\n"
        "| operator | float64 | float32 | float16 | bfloat16 |\n|---|---|---|---|---|\n");
}

void accuracy_write(FILE *file, const mx_op *op, const accuracy_entry *entry)
{
    fprintf(file, "| `%s` |", op->name);
    for (int type = 0; type < ACCURACY_TYPES; type++)
        if (entry->ulp[type] < 0)
            fprintf(file, " – |");
        else
            fprintf(file, entry->ulp[type] < 9.95 ? " %.1f |" : " %.0f |", entry->ulp[type]);
    fprintf(file, "\n");
}

/* ---- comparing ------------------------------------------------------------------------------------------ */

/* The operator's line of the table; false: it has none. */
static bool find_entry(FILE *file, const char *name, accuracy_entry *entry)
{
    char line[512], start[256];
    snprintf(start, sizeof start, "| `%s` |", name);
    while (fgets(line, sizeof line, file))
        if (!strncmp(line, start, strlen(start))) {
            char *at = line + strlen(start), *after;
            for (int type = 0; type < ACCURACY_TYPES; type++) {
                entry->ulp[type] = strtod(at, &after);
                if (after == at)
                    entry->ulp[type] = -1;
                at = strchr(at, '|') + 1;
            }
            return true;
        }
    return false;
}

void accuracy_compare(const char *path, mx_op *op, const accuracy_entry *entry)
{
    FILE *file = fopen(path, "r");
    const ops_case c = {.op = op};
    accuracy_entry wanted;
    if (!file) {
        ops_fail(&c, "%s cannot be read", path);
        return;
    }
    const bool found = find_entry(file, op->name, &wanted);
    fclose(file);
    for (int type = 0; found && type < ACCURACY_TYPES; type++) {
        const char *name = mx_dtype_name(accuracy_types[type]);
        if (wanted.ulp[type] >= 0 && entry->ulp[type] < 0)
            ops_fail(&c, "no longer computes in %s", name);
        else if (entry->ulp[type] > 1.5 * wanted.ulp[type] + 1)
            ops_fail(&c, "%s differs by %.1f ulp, %.1f in %s", name, entry->ulp[type], wanted.ulp[type], path);
    }
}
