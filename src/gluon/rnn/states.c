/* States of cells: their shapes and initial values.  Each is named after its cell and its number: lstm0_begin_state_1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/given.h"
#include "exec/list.h"
#include "exec/tape.h"
#include "gluon/op.gen.h"
#include "gluon/rnn/cell.h"
#include "graph/names.h"
#include "graph/node.h"

mx_code mx_cell_add_state(mx_state_infos *infos, mx_dims shape, const char *layout)
{
    const mx_state_info info = {shape, layout};
    return mx_vec_push(infos, info) ? MX_OK : mx_error_code();
}

mx_code mx_cell_infos_itself(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    const mx_cell_methods *methods = self->cell->methods;
    if (!methods)
        return mx_fail(MX_ERR_UNSUPPORTED, "%s (%s) does not override state_info", self->name, self->class_name);
    return methods->state_info(self, batch_size, infos);
}

mx_code mx_cell_infos(mx_block *self, int64_t batch_size, mx_state_infos *infos)
{
    const mx_cell *cell = self->cell;
    return cell->over.state_info ? cell->over.state_info(self, batch_size, infos)
                                 : mx_cell_infos_itself(self, batch_size, infos);
}

int64_t mx_cell_state_count(mx_block *cell)
{
    mx_state_infos infos = {0};
    const mx_code code = mx_cell_check(cell, "mx_cell_state_count") ? mx_error_code() : mx_cell_infos(cell, 0, &infos);
    const int64_t n = code ? -1 : infos.length;
    mx_vec_free(&infos);
    return n;
}

mx_code mx_cell_state_info(mx_block *cell, int64_t i, int64_t batch_size, mx_state_info *info)
{
    mx_state_infos infos = {0};
    if (mx_cell_check(cell, "mx_cell_state_info") || !mx_given(info, "mx_cell_state_info", "info") ||
        mx_cell_infos(cell, batch_size, &infos))
        return mx_vec_free(&infos), mx_error_code();
    mx_code code = MX_OK;
    if (i >= 0 && i < infos.length)
        *info = infos.items[i];
    else
        code = mx_fail(MX_ERR_INDEX, "%s (%s): there is no state %lld, the cell has %lld", cell->name, cell->class_name,
                       (long long)i, (long long)infos.length);
    mx_vec_free(&infos);
    return code;
}

/* Zeros; as a node whose batch size is inferred from its uses. */
static mx_array *make_zeros(const mx_begin *how, const mx_state_info *info, const char *name)
{
    const bool tracing = mx_thread.modes.tracing;
    const char *waiting = how->symbolic ? mx_names_next(name) : NULL;
    mx_thread.modes.tracing |= how->symbolic;
    mx_array *zeros =
        mx_zeros(.shape = info->shape, .ctx = how->symbolic ? (mx_context){0} : how->context, .dtype = how->dtype);
    mx_thread.modes.tracing = tracing;
    if (how->symbolic)
        mx_names_next(waiting);
    return zeros;
}

void mx_cell_next_state(mx_block *cell, mx_text *name)
{
    mx_text_print(name, "%sbegin_state_%lld", cell->prefix, (long long)++cell->cell->init_counter);
}

static mx_code begin_each(mx_block *self, const mx_begin *how, const mx_state_infos *infos, mx_state_list *states)
{
    for (int64_t i = 0; i < infos->length; i++) {
        mx_text name = {0};
        mx_cell_next_state(self, &name);
        const char *text = mx_text_to_scope(&name);
        mx_array *state = text ? how->make(how, &infos->items[i], text) : NULL;
        if (!state || !mx_vec_push(states, state))
            return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_cell_begin_itself(mx_block *self, const mx_begin *how, mx_state_list *states)
{
    mx_state_infos infos = {0};
    if (mx_cell_check_free(self))
        return mx_error_code();
    if (self->cell->methods && self->cell->methods->begin_state)
        return self->cell->methods->begin_state(self, how, states);
    mx_code code = mx_cell_infos(self, how->batch_size, &infos);
    code = code ? code : begin_each(self, how, &infos, states);
    mx_vec_free(&infos);
    return code;
}

mx_code mx_cell_begin(mx_block *self, const mx_begin *how, mx_state_list *states)
{
    return self->cell->over.begin_state ? self->cell->over.begin_state(self, how, states)
                                        : mx_cell_begin_itself(self, how, states);
}

mx_arrays mx_state_list_give(mx_state_list *states)
{
    mx_array **list = mx_list_new(states->length + 1);
    const mx_arrays given = {list, list ? states->length : 0};
    if (list && states->length)
        memcpy(list, states->items, (size_t)states->length * sizeof *list);
    mx_vec_free(states);
    return list ? given : mx_list_failed();
}

mx_arrays mx_cell_begin_state_with(const struct mx_begin_options *o)
{
    mx_state_list states = {0};
    if (!o || mx_cell_check(o->cell, "mx_cell_begin_state"))
        return mx_list_failed();
    const mx_begin how = {.batch_size = o->batch_size, .make = make_zeros, .context = o->context, .dtype = o->dtype,
                          .symbolic = o->symbolic};
    if (mx_cell_begin(o->cell, &how, &states))
        return mx_vec_free(&states), mx_list_failed();
    return mx_state_list_give(&states);
}

mx_code mx_cell_begin_like(mx_block *cell, const mx_unroll *u, const mx_sequence *inputs, mx_state_list *states)
{
    if (u->begun) {
        for (int64_t i = 0; i < u->begin.n; i++)
            if (!mx_vec_push(states, u->begin.v[i]))
                return mx_error_code();
        return MX_OK;
    }
    mx_sequence_layout axes;
    if (mx_sequence_layout_from(u->layout, &axes))
        return mx_error_code();
    const mx_array *first = inputs->one ? inputs->one : inputs->steps.v[0];
    const bool symbolic = mx_is_symbolic(first), typed = !symbolic && mx_dtype_valid(first->dtype);
    const mx_begin how = {.batch_size = mx_sequence_batch(inputs, &axes), .make = make_zeros,
                          .context = symbolic ? (mx_context){0} : first->context,
                          .dtype = typed ? (mx_dtype)first->dtype : MX_FLOAT32, .symbolic = symbolic};
    return mx_cell_begin(cell, &how, states);
}
