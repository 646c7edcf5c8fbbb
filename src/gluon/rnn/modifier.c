/* What modifier cells share: they have the parameters and states of their child base_cell, which may then only be used
 * through them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/rnn/cell.h"

mx_block *mx_modifier_base(const void *options) { return *(void *const *)options; }

mx_code mx_modifier_infos(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    return mx_cell_infos(mx_cell_inside(self), batch_size, infos);
}

mx_code mx_modifier_begin(mx_block *self, const mx_begin *how, mx_state_list *states)
{
    mx_block *base = mx_cell_inside(self);
    mx_begin inside = *how;
    inside.modified = true;
    base->cell->modified = false;
    const mx_code code = mx_cell_begin(base, &inside, states);
    base->cell->modified = true;
    return code;
}

mx_code mx_modifier_unroll(mx_block *self, const mx_unroll *u, mx_unrolled *out)
{
    mx_block *base = mx_cell_inside(self);
    base->cell->modified = false;
    const mx_code code = mx_cell_run_unroll(base, u, out);
    base->cell->modified = true;
    return code;
}

mx_code mx_modifier_build(mx_block *self)
{
    mx_block *base = mx_modifier_base(mx_options(self));
    if (mx_cell_check(base, self->class_name) || mx_cell_check_free(base) || !mx_block_child(self, "base_cell", base))
        return mx_error_code();
    base->cell->modified = true;
    return MX_OK;
}

mx_code mx_modifier_prefix(const void *options, const char *alias, mx_text *text)
{
    const mx_block *base = mx_modifier_base(options);
    if (mx_cell_check(base, "a modifier cell"))
        return mx_error_code();
    mx_text_add(text, base->prefix);
    mx_text_add(text, alias);
    return MX_OK;
}
