/* Interned texts of attributes: one permanent copy of each.  SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>

#include "base/dict.h"
#include "op/schema.h"

const char *mx_intern(const char *text)
{
    static mx_dict texts;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    mx_dict_entry *entry = mx_dict_place(&texts, text);
    const char *key = entry ? entry->key : NULL; /* keys stay where they are when the table grows */
    pthread_mutex_unlock(&lock);
    return key;
}
