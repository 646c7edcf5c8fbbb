/* Tables from ids (numbers or names) to numbers or pointers.
 *
 *     mx_id_table --- numbers: "3" -> value      names: "fc1_weight" -> value
 *
 * The number 3 and the name "3" are different ids.  A zeroed struct is an empty table; values are not owned.  Pointers to
 * entries live until the next insertion or removal.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_ID_TABLE_H
#define MX_GLUON_ID_TABLE_H

#include <string.h>

#include "base/dict.h"
#include "gluon/id.h"

typedef struct mx_id_table {
    mx_dict numbers, names;
} mx_id_table;

mx_dict_entry *mx_id_find(const mx_id_table *table, mx_id id); /* NULL: absent */
mx_dict_entry *mx_id_place(mx_id_table *table, mx_id id); /* added with value 0 if it is new; NULL: out of memory */
/* mx_id_place for repeated use: *hint is the entry's position last time, so a number is usually found without a search. */
mx_dict_entry *mx_id_place_near(mx_id_table *table, mx_id id, int64_t *hint);
bool mx_id_remove(mx_id_table *table, mx_id id); /* false: absent */
void mx_id_table_free(mx_id_table *table);       /* empty afterwards */
/* Entries 0 ... length - 1: first the numbers, then the names, each in order of insertion. */
int64_t mx_id_table_length(const mx_id_table *table);
mx_dict_entry *mx_id_table_at(const mx_id_table *table, int64_t i);
mx_id mx_id_at(const mx_id_table *table, int64_t i); /* its name lives as long as the entry */

/* "3" or "'fc1_weight'", for messages. */
#define MX_ID_TEXT 96
const char *mx_id_text(mx_id id, char text[MX_ID_TEXT]);

/* Values that are floating-point numbers. */
static inline double mx_entry_double(const mx_dict_entry *entry)
{
    double value;
    memcpy(&value, &entry->number, sizeof value);
    return value;
}
static inline mx_code mx_id_set_double(mx_id_table *table, mx_id id, double value)
{
    mx_dict_entry *entry = mx_id_place(table, id);
    if (!entry)
        return MX_ERR_MEMORY;
    memcpy(&entry->number, &value, sizeof value);
    return MX_OK;
}

#endif
