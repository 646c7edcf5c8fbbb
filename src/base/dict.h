/* A table from names to pointers or numbers that preserves insertion order.
 *
 * Entries are stored in one array, oldest first; a hash table of indices points into it.  Keys are copied.  Values are
 * not owned.  A zeroed struct is an empty table; nothing is allocated before the first insertion.  Entries move
 * when the table grows, so pointers to them are valid until the next insertion or removal.
 *
 *     for (int64_t i = 0; i < dict.length; i++) use(dict.entries[i].key, dict.entries[i].pointer);
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_DICT_H
#define MX_BASE_DICT_H

#include "gluon/base.h"

typedef struct mx_dict_entry {
    char *key;     /* owned */
    uint64_t hash; /* of the key */
    union {
        void *pointer;
        int64_t number;
    };
} mx_dict_entry;

typedef struct mx_dict {
    mx_dict_entry *entries; /* (capacity), the first `length` in use, in order of insertion */
    int64_t length, capacity;
    uint32_t *slots;    /* (slot_count): index of an entry + 1; 0: free */
    int64_t slot_count; /* a power of two, at least 2 * length */
} mx_dict;

mx_dict_entry *mx_dict_find(const mx_dict *dict, const char *key); /* NULL: missing */
/* The entry of `key`, created with value 0 if it is new; NULL with an error if out of memory. */
mx_dict_entry *mx_dict_place(mx_dict *dict, const char *key);
bool mx_dict_remove(mx_dict *dict, const char *key); /* keeps the order of the others; false: missing. Linear time. */
void mx_dict_free(mx_dict *dict);                    /* empty afterwards */

static inline void *mx_dict_get(const mx_dict *dict, const char *key)
{
    const mx_dict_entry *entry = mx_dict_find(dict, key);
    return entry ? entry->pointer : NULL;
}

static inline int64_t mx_dict_get_number(const mx_dict *dict, const char *key, int64_t fallback)
{
    const mx_dict_entry *entry = mx_dict_find(dict, key);
    return entry ? entry->number : fallback;
}

static inline bool mx_dict_set(mx_dict *dict, const char *key, void *pointer)
{
    mx_dict_entry *entry = mx_dict_place(dict, key);
    if (entry)
        entry->pointer = pointer;
    return entry != NULL;
}

static inline bool mx_dict_set_number(mx_dict *dict, const char *key, int64_t number)
{
    mx_dict_entry *entry = mx_dict_place(dict, key);
    if (entry)
        entry->number = number;
    return entry != NULL;
}

/* Name counters: 0 at the first call for a key, then 1, 2 ...; -1: out of memory. */
static inline int64_t mx_dict_count(mx_dict *dict, const char *key)
{
    mx_dict_entry *entry = mx_dict_place(dict, key);
    return entry ? entry->number++ : -1;
}

#endif
