/* The insertion-ordered table (see dict.h): linear probing over indices.
 *
 * Invariant: every entry's index is found by probing from its hash without meeting a free slot.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/dict.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"

#define FIRST_CAPACITY 8

static uint64_t hash_key(const char *key)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 0x100000001b3u;
    return hash ^ (hash >> 29); /* the low bits choose the slot: mix the high ones in */
}

/* The slot that holds the key's index, or the free one where it belongs. */
static int64_t probe(const mx_dict *dict, const char *key, uint64_t hash)
{
    int64_t mask = dict->slot_count - 1, slot = (int64_t)(hash & (uint64_t)mask);
    for (; dict->slots[slot]; slot = (slot + 1) & mask) {
        const mx_dict_entry *entry = &dict->entries[dict->slots[slot] - 1];
        if (entry->hash == hash && strcmp(entry->key, key) == 0)
            break;
    }
    return slot;
}

mx_dict_entry *mx_dict_find(const mx_dict *dict, const char *key)
{
    if (!key || !dict->length)
        return NULL;
    uint32_t index = dict->slots[probe(dict, key, hash_key(key))];
    return index ? &dict->entries[index - 1] : NULL;
}

static void fill_slots(mx_dict *dict)
{
    memset(dict->slots, 0, (size_t)dict->slot_count * sizeof *dict->slots);
    int64_t mask = dict->slot_count - 1;
    for (int64_t i = 0; i < dict->length; i++) {
        int64_t slot = (int64_t)(dict->entries[i].hash & (uint64_t)mask);
        while (dict->slots[slot])
            slot = (slot + 1) & mask;
        dict->slots[slot] = (uint32_t)(i + 1);
    }
}

static bool grow(mx_dict *dict)
{
    int64_t capacity = dict->capacity ? 2 * dict->capacity : FIRST_CAPACITY;
    if (capacity >= INT32_MAX) {
        mx_fail(MX_ERR_MEMORY, "dict: more than %lld names", (long long)dict->length);
        return false;
    }
    size_t bytes = sizeof *dict->entries, slot_bytes = sizeof *dict->slots;
    uint32_t *slots = mx_alloc((size_t)(2 * capacity) * slot_bytes);
    mx_dict_entry *entries =
        slots ? mx_realloc(dict->entries, (size_t)dict->capacity * bytes, (size_t)capacity * bytes) : NULL;
    if (!entries) {
        mx_free(slots, (size_t)(2 * capacity) * slot_bytes);
        return false;
    }
    mx_free(dict->slots, (size_t)dict->slot_count * slot_bytes);
    *dict = (mx_dict){entries, dict->length, capacity, slots, 2 * capacity};
    fill_slots(dict);
    return true;
}

mx_dict_entry *mx_dict_place(mx_dict *dict, const char *key)
{
    if (!key)
        return mx_fail_null(MX_ERR_ARGUMENT, "dict: the key is NULL");
    if (dict->length == dict->capacity) {
        mx_dict_entry *present = mx_dict_find(dict, key);
        if (present)
            return present;
        if (!grow(dict))
            return NULL;
    }
    uint64_t hash = hash_key(key);
    int64_t slot = probe(dict, key, hash);
    if (dict->slots[slot])
        return &dict->entries[dict->slots[slot] - 1];
    char *copy = mx_strdup_packed(key);
    if (!copy)
        return NULL;
    mx_dict_entry *entry = &dict->entries[dict->length++];
    *entry = (mx_dict_entry){.key = copy, .hash = hash, .number = 0};
    dict->slots[slot] = (uint32_t)dict->length;
    return entry;
}

bool mx_dict_remove(mx_dict *dict, const char *key)
{
    mx_dict_entry *entry = mx_dict_find(dict, key);
    if (!entry)
        return false;
    mx_strfree_packed(entry->key);
    int64_t after = dict->length - (entry - dict->entries) - 1;
    memmove(entry, entry + 1, (size_t)after * sizeof *entry);
    dict->length--;
    fill_slots(dict);
    return true;
}

void mx_dict_free(mx_dict *dict)
{
    for (int64_t i = 0; i < dict->length; i++)
        mx_strfree_packed(dict->entries[i].key);
    mx_free(dict->entries, (size_t)dict->capacity * sizeof *dict->entries);
    mx_free(dict->slots, (size_t)dict->slot_count * sizeof *dict->slots);
    *dict = (mx_dict){0};
}
