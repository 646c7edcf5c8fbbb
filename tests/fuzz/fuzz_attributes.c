/* Texts of attributes: two bytes choose an operator, the rest is a list "name=value, ..." as samples and users write them.  What is
 * accepted is printed and must be read back as the same values.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "op/op.h"

#define MOST_OPS 4096
#define LARGEST 4096 /* bytes of a struct of attributes */

static const mx_op *choose(unsigned number)
{
    static const mx_op *list[MOST_OPS];
    static unsigned count;
    if (!count)
        for (int i = 0; mx_op_at(i) && count < MOST_OPS; i++)
            if (mx_op_at(i)->schema && mx_op_at(i)->schema->count)
                list[count++] = mx_op_at(i);
    return list[number % count];
}

/* What the printer writes is what the parser reads; texts, which it may shorten, apart. */
static void check_again(const mx_op *op, const void *attrs)
{
    char again[LARGEST] __attribute__((aligned(64))), text[MX_VALUE_TEXT];
    memcpy(again, attrs, op->schema->size);
    for (int i = 0; i < op->schema->count; i++) {
        const mx_field *field = &op->schema->fields[i];
        if (field->type == MX_FIELD_PTR || field->type == MX_FIELD_STR)
            continue;
        if (mx_schema_set(op->schema, again, op->name, field->name, mx_field_text(field, attrs, text)) ||
            !mx_schema_equal(op->schema, attrs, again)) {
            fprintf(stderr, "%s: %s=%s is printed, but not read back: %s\n", op->name, field->name, text,
                    mx_error_message());
            abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char attrs[LARGEST] __attribute__((aligned(64))), text[1024];
    if (size < 2 || size - 2 >= sizeof text)
        return 0;
    const mx_op *op = choose((unsigned)bytes[0] << 8 | bytes[1]);
    if (op->schema->size > sizeof attrs)
        return 0;
    memcpy(text, bytes + 2, size - 2);
    text[size - 2] = 0;
    mx_schema_defaults(op->schema, attrs);
    const bool accepted =
        !mx_schema_parse(op->schema, attrs, op->name, text) && !mx_schema_check(op->schema, attrs, op->name);
    fuzz_expect_report(accepted);
    if (accepted)
        check_again(op, attrs);
    return 0;
}
