/* Tables from ids to values (see id_table.h).  SPDX-License-Identifier: Apache-2.0 */
#include "gluon/train/id_table.h"

#include <stdio.h>
#include <stdlib.h>

#define NUMBER_TEXT 24

static const char *key_of(mx_id id, char text[NUMBER_TEXT])
{
    if (id.name)
        return id.name;
    snprintf(text, NUMBER_TEXT, "%lld", (long long)id.number);
    return text;
}

mx_dict_entry *mx_id_find(const mx_id_table *table, mx_id id)
{
    char text[NUMBER_TEXT];
    const mx_dict *dict = id.name ? &table->names : &table->numbers;
    return dict->length ? mx_dict_find(dict, key_of(id, text)) : NULL;
}

mx_dict_entry *mx_id_place(mx_id_table *table, mx_id id)
{
    char text[NUMBER_TEXT];
    return mx_dict_place(id.name ? &table->names : &table->numbers, key_of(id, text));
}

/* Whether a key is the text of a number, which is not negative. */
static bool spells(const char *key, int64_t number)
{
    int64_t read = 0;
    for (; *key >= '0' && *key <= '9'; key++)
        read = 10 * read + (*key - '0');
    return !*key && read == number;
}

mx_dict_entry *mx_id_place_near(mx_id_table *table, mx_id id, int64_t *hint)
{
    mx_dict *dict = id.name ? &table->names : &table->numbers;
    if (!id.name && *hint < dict->length && spells(dict->entries[*hint].key, id.number))
        return &dict->entries[*hint];
    mx_dict_entry *entry = mx_id_place(table, id);
    *hint = entry ? entry - dict->entries : 0;
    return entry;
}

bool mx_id_remove(mx_id_table *table, mx_id id)
{
    char text[NUMBER_TEXT];
    return mx_dict_remove(id.name ? &table->names : &table->numbers, key_of(id, text));
}

void mx_id_table_free(mx_id_table *table)
{
    mx_dict_free(&table->numbers);
    mx_dict_free(&table->names);
}

int64_t mx_id_table_length(const mx_id_table *table) { return table->numbers.length + table->names.length; }

mx_dict_entry *mx_id_table_at(const mx_id_table *table, int64_t i)
{
    return i < table->numbers.length ? &table->numbers.entries[i] : &table->names.entries[i - table->numbers.length];
}

mx_id mx_id_at(const mx_id_table *table, int64_t i)
{
    const mx_dict_entry *entry = mx_id_table_at(table, i);
    return i < table->numbers.length ? mx_id_number(strtoll(entry->key, NULL, 10)) : mx_id_name(entry->key);
}

const char *mx_id_text(mx_id id, char text[MX_ID_TEXT])
{
    if (id.name)
        snprintf(text, MX_ID_TEXT, "'%.80s'", id.name);
    else
        snprintf(text, MX_ID_TEXT, "%lld", (long long)id.number);
    return text;
}
