/* The registry of users' operators, and their uses in graphs (see gluon/custom.h).
 *
 * Classes are never freed, like the names of operators: nodes of graphs point to them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "graph/custom.h"

#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dict.h"
#include "base/error.h"
#include "base/text.h"

#include "gluon/op.gen.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mx_dict classes; /* op_type -> mx_custom_class; guarded by the lock */

/* ---- classes ----------------------------------------------------------------------------------------------------- */

mx_code mx_custom_register(const mx_custom_class *custom)
{
    if (!custom || !custom->op_type || !custom->create || !custom->names || !custom->infer || !custom->forward)
        return mx_fail(MX_ERR_ARGUMENT, "mx_custom_register: the class or one of op_type, create, names, infer and "
                                        "forward is NULL");
    const char *name = mx_intern(custom->op_type);
    mx_custom_class *copy = name ? mx_alloc(sizeof *copy) : NULL;
    if (!copy)
        return mx_error_code();
    *copy = *custom;
    copy->op_type = name;
    pthread_mutex_lock(&lock);
    const bool ok = mx_dict_set(&classes, name, copy); /* an older one of this name may be in use: not freed */
    pthread_mutex_unlock(&lock);
    if (!ok)
        mx_free(copy, sizeof *copy);
    return ok ? MX_OK : mx_error_code();
}

static const mx_custom_class *find_class(const char *op_type)
{
    pthread_mutex_lock(&lock);
    const mx_custom_class *custom = op_type ? mx_dict_get(&classes, op_type) : NULL;
    pthread_mutex_unlock(&lock);
    if (!custom)
        mx_fail(MX_ERR_ARGUMENT, "Custom: no operator is registered as '%.80s'", op_type ? op_type : "None");
    return custom;
}

/* ---- uses -------------------------------------------------------------------------------------------------------- */

static void destroy_use(mx_object *object)
{
    mx_custom_use *use = (mx_custom_use *)object;
    if (use->self && use->custom->release)
        use->custom->release(use->self);
    for (int i = 0; use->keys && i < 2 * use->n_options; i++)
        mx_strfree(use->keys[i]);
    mx_free(use->keys, 2 * (size_t)use->n_options * sizeof(char *));
    mx_free(use, sizeof *use);
}
static const mx_kind use_kind = {"use of a user's operator", destroy_use};

static const mx_custom_use *use_of(const mx_callee *callee) { return (const mx_custom_use *)(const void *)callee; }

static bool writes(const mx_callee *callee, int i) { return i >= use_of(callee)->n[MX_CUSTOM_ARGUMENTS]; }

static const char *output_name(const mx_callee *callee, int i) { return use_of(callee)->names[MX_CUSTOM_OUTPUTS][i]; }

static int count(const mx_callee *callee) { return use_of(callee)->n[MX_CUSTOM_OUTPUTS]; }

static bool option(const mx_callee *callee, int i, const char **key, const char **text)
{
    const mx_custom_use *use = use_of(callee);
    if (i >= use->n_options)
        return false;
    *key = use->keys[i], *text = use->texts[i];
    return true;
}

static mx_code copy_options(mx_custom_use *use, int n, const char *const *keys, const char *const *values)
{
    use->keys = mx_alloc_zero(2 * (size_t)n * sizeof(char *));
    if (!use->keys)
        return MX_ERR_MEMORY;
    use->texts = use->keys + n, use->n_options = n;
    for (int i = 0; i < n; i++)
        if (!(use->keys[i] = mx_strdup(keys[i])) || !(use->texts[i] = mx_strdup(values[i])))
            return mx_error_code();
    return MX_OK;
}

static mx_code ask_names(mx_custom_use *use)
{
    static const char *const what[] = {"arguments", "outputs", "auxiliary states"};
    for (int list = 0; list < 3; list++) {
        use->names[list] = use->custom->names(use->self, (enum mx_custom_list)list, &use->n[list]);
        const int n = use->n[list], least = list == MX_CUSTOM_OUTPUTS;
        if ((!use->names[list] && n) || n < least || n >= MX_MAX_OUTPUTS)
            return mx_has_error() ? mx_error_code()
                                  : mx_fail(MX_ERR_CALLBACK, "Custom '%s': names %d %s, wanted %d to %d",
                                            use->custom->op_type, n, what[list], least, MX_MAX_OUTPUTS - 1);
    }
    return MX_OK;
}

static mx_code fill(mx_custom_use *use, int n, const char *const *keys, const char *const *values)
{
    if (copy_options(use, n, keys, values))
        return mx_error_code();
    use->self =
        use->custom->create(use->custom->user, n, (const char *const *)use->keys, (const char *const *)use->texts);
    if (use->self)
        return ask_names(use);
    return mx_has_error()
               ? mx_error_code()
               : mx_fail(MX_ERR_CALLBACK, "Custom '%s': its properties could not be created", use->custom->op_type);
}

bool mx_op_is_custom(const mx_op *op) { return !strcmp(op->name, "Custom"); }
const char *mx_custom_type(const void *attrs) { return ((const mx_custom_attrs *)attrs)->op_type; }

static bool takes_sparse(const mx_callee *callee)
{
    const mx_custom_use *use = (const mx_custom_use *)(const void *)callee;
    return use->custom->takes_sparse && use->custom->storage && use->custom->takes_sparse(use->self);
}

mx_callee *mx_custom_callee(const char *op_type, int n, const char *const *keys, const char *const *values)
{
    static const mx_callee_methods methods = {mx_custom_infer, mx_custom_run_on, writes,       output_name,
                                               count,           option,           takes_sparse};
    const mx_custom_class *custom = find_class(op_type);
    mx_custom_use *use = custom ? mx_alloc_zero(sizeof *use) : NULL;
    if (!use)
        return NULL;
    mx_object_init(&use->callee.object, &use_kind);
    use->callee.methods = &methods;
    use->custom = custom;
    if (!fill(use, n, keys, values))
        return &use->callee;
    mx_release(use);
    return NULL;
}

/* ---- inference --------------------------------------------------------------------------------------------------- */

/* Users write 0 for an unknown size. */
static mx_dims to_user(const mx_shape_t *shape)
{
    mx_dims dims = mx_dims_of_shape(shape);
    for (int i = 0; i < dims.n; i++)
        dims.d[i] = dims.d[i] < 0 ? 0 : dims.d[i];
    return dims;
}

static mx_shape_t from_user(const mx_dims *dims)
{
    mx_shape_t shape = mx_shape_of_dims(dims);
    for (int i = 0; i < shape.ndim; i++)
        shape.dim[i] = shape.dim[i] > 0 ? shape.dim[i] : -1;
    return shape;
}

typedef struct question {
    mx_dims shape[3 * MX_MAX_OUTPUTS];
    mx_dtype type[3 * MX_MAX_OUTPUTS];
} question;

static mx_code put_answer(mx_infer *infer, const mx_custom_use *use, const question *q)
{
    const int n_in = use->n[MX_CUSTOM_ARGUMENTS] + use->n[MX_CUSTOM_AUXILIARY];
    for (int i = 0; i < n_in + use->n[MX_CUSTOM_OUTPUTS]; i++) {
        const mx_shape_t shape = from_user(&q->shape[i]);
        if (mx_has_error())
            return mx_error_code();
        if (i < n_in ? mx_infer_in(infer, i, &shape) : mx_infer_out(infer, i - n_in, &shape))
            return mx_error_code();
        if (i < n_in ? mx_infer_in_type(infer, i, q->type[i]) : mx_infer_out_type(infer, i - n_in, q->type[i]))
            return mx_error_code();
    }
    return MX_OK;
}

mx_code mx_custom_infer(const mx_callee *callee, mx_infer *infer)
{
    const mx_custom_use *use = use_of(callee);
    const int n_arguments = use->n[MX_CUSTOM_ARGUMENTS], n_in = n_arguments + use->n[MX_CUSTOM_AUXILIARY];
    if (infer->n_in != n_in || infer->n_out != use->n[MX_CUSTOM_OUTPUTS] + 1)
        return mx_op_fail(infer->op, MX_ERR_ARGUMENT, "'%s': got %d inputs, wanted %d", use->custom->op_type,
                          infer->n_in, n_in);
    if (n_arguments && !mx_shape_known(&infer->in[0]))
        return MX_OK;
    question q;
    for (int i = 0; i < n_in + infer->n_out - 1; i++) {
        q.shape[i] = to_user(i < n_in ? &infer->in[i] : &infer->out[i - n_in]);
        q.type[i] = (mx_dtype)(i < n_in ? infer->in_type[i] : infer->out_type[i - n_in]);
    }
    const mx_custom_shapes shapes = {n_arguments,
                                     use->n[MX_CUSTOM_OUTPUTS],
                                     use->n[MX_CUSTOM_AUXILIARY],
                                     q.shape,
                                     q.shape + n_in,
                                     q.shape + n_arguments,
                                     q.type,
                                     q.type + n_in,
                                     q.type + n_arguments};
    if (use->custom->infer(use->self, &shapes))
        return mx_has_error()
                   ? mx_error_code()
                   : mx_op_fail(infer->op, MX_ERR_CALLBACK, "'%s': its inference failed", use->custom->op_type);
    return put_answer(infer, use, &q);
}
