/* Texts that live as long as their scope.  SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/object.h"
#include "base/text.h"

typedef struct text_object {
    mx_object object;
    char *text; /* owned */
} text_object;

static void destroy(mx_object *self)
{
    mx_strfree(((text_object *)self)->text);
    mx_free(self, sizeof(text_object));
}
static const mx_kind text_kind = {"text", destroy};

const char *mx_text_to_scope(mx_text *text)
{
    char *copy = mx_text_take(text);
    text_object *owner = copy ? mx_alloc(sizeof *owner) : NULL;
    if (!owner) {
        mx_strfree(copy);
        return NULL;
    }
    mx_object_init(&owner->object, &text_kind);
    owner->text = copy;
    return mx_scope_add(owner) ? copy : NULL;
}
