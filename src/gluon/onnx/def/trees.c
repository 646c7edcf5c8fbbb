/* Ensembles of decision trees (domain ai.onnx.ml).  SPDX-License-Identifier: Apache-2.0
 *
 * All nodes of all trees are in one table.  Every row of the input starts at the root of each tree, (N, trees), and goes
 * down as many steps as the deepest tree has; a leaf leads to itself.  Then the weights of the leaves are added.
 *
 *     node = where(x[feature[node]] <= value[node], yes[node], no[node]) */
#include <stdio.h>
#include <string.h>

#include "gluon/onnx/def/ml.h"
#include "ndarray/array.h"

enum { LEQ, LT, GTE, GT, EQ, NEQ, MODES, LEAF = MODES };

typedef struct forest {
    int64_t nodes, trees, depth, targets;
    int64_t *feature, *yes, *no; /* (nodes) */
    float *value, *tracks;       /* (nodes); tracks: 1 where missing numbers go to `yes` */
    int *mode;                   /* (nodes) */
    int64_t *root;               /* (trees) */
    mx_array *weights;           /* (nodes, targets) */
    bool used[MODES], negative;  /* modes that are there; some weight is below 0 */
} forest;

/* ---- tables ---------------------------------------------------------------------------------------------------- */

/* Memory of the scope. */
static void *table(int64_t n, size_t size)
{
    const mx_shape_t shape = {.ndim = 1, .dim = {(n + 1) * (int64_t)((size + 7) / 8)}};
    mx_array *x = mx_scope_add(mx_array_new(&shape, MX_INT64, mx_cpu(0)));
    return x && !mx_array_fill(x, 0) ? mx_data(x) : NULL;
}

static bool new_tables(forest *f)
{
    f->feature = table(f->nodes, sizeof *f->feature);
    f->yes = table(f->nodes, sizeof *f->yes);
    f->no = table(f->nodes, sizeof *f->no);
    f->value = table(f->nodes, sizeof *f->value);
    f->tracks = table(f->nodes, sizeof *f->tracks);
    f->mode = table(f->nodes, sizeof *f->mode);
    f->root = table(f->nodes, sizeof *f->root);
    return f->feature && f->yes && f->no && f->value && f->tracks && f->mode && f->root;
}

/* Numbers of an attribute, `size` of them; NULL with an error. */
static int64_t *ints(const mx_onnx_in *n, const char *attr, int64_t size)
{
    mx_array *list = mx_onnx_list(n, attr, false);
    if (list && list->size == size)
        return size ? mx_data(list) : table(0, 8);
    return mx_has_error() ? NULL
                          : (mx_onnx_fail(n, MX_ERR_FILE, "%s has not %lld numbers", attr, (long long)size), NULL);
}

/* Floats of an attribute, or of a tensor in attr_as_tensor. */
static float *floats(const mx_onnx_in *n, const char *attr, const char *tensor, int64_t size)
{
    mx_array *list = mx_onnx_list(n, attr, true);
    list = list || mx_has_error() ? list : mx_onnx_cast(mx_onnx_tensor(n, tensor), MX_FLOAT32);
    if (list && list->size == size)
        return size ? mx_data(list) : table(0, 8);
    return mx_has_error() ? NULL
                          : (mx_onnx_fail(n, MX_ERR_FILE, "%s has not %lld numbers", attr, (long long)size), NULL);
}

typedef struct modes {
    forest *f;
    int64_t at;
} modes;

static void take_mode(void *to, const char *text, int64_t size)
{
    static const char *const names[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                        "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
    modes *m = to;
    for (int i = 0; i <= LEAF && m->at < m->f->nodes; i++)
        if (size == (int64_t)strlen(names[i]) && !memcmp(text, names[i], (size_t)size))
            m->f->mode[m->at] = i;
    m->at++;
}

/* ---- attributes of the older operators ----------------------------------------------------------------------------- */

static const char *key(int64_t tree, int64_t node, char *buffer)
{
    snprintf(buffer, 64, "%lld.%lld", (long long)tree, (long long)node);
    return buffer;
}

/* The number of a node of a tree; -1 with an error. */
static int64_t find(const mx_onnx_in *n, const mx_dict *places, int64_t tree, int64_t node)
{
    char buffer[64];
    const int64_t at = mx_dict_get_number(places, key(tree, node, buffer), 0) - 1;
    if (at < 0)
        mx_onnx_fail(n, MX_ERR_FILE, "tree %lld has no node %lld", (long long)tree, (long long)node);
    return at;
}

/* Nodes that no other one leads to. */
static mx_code find_roots(forest *f)
{
    bool *inner = table(f->nodes, sizeof *inner);
    for (int64_t i = 0; inner && i < f->nodes; i++)
        if (f->mode[i] != LEAF)
            inner[f->yes[i]] = inner[f->no[i]] = true;
    for (int64_t i = 0; inner && i < f->nodes; i++)
        if (!inner[i])
            f->root[f->trees++] = i;
    return inner ? MX_OK : mx_error_code();
}

static mx_code link_nodes(const mx_onnx_in *n, forest *f, mx_dict *places)
{
    char buffer[64];
    const int64_t *tree = ints(n, "nodes_treeids", f->nodes), *id = ints(n, "nodes_nodeids", f->nodes),
                  *yes = ints(n, "nodes_truenodeids", f->nodes), *no = ints(n, "nodes_falsenodeids", f->nodes);
    if (!tree || !id || !yes || !no)
        return mx_error_code();
    for (int64_t i = 0; i < f->nodes; i++) {
        mx_dict_entry *entry = mx_dict_place(places, key(tree[i], id[i], buffer));
        if (!entry || entry->number)
            return entry ? mx_onnx_fail(n, MX_ERR_FILE, "tree %lld has two nodes %lld", (long long)tree[i],
                                        (long long)id[i])
                         : mx_error_code();
        entry->number = i + 1;
    }
    for (int64_t i = 0; i < f->nodes; i++) {
        f->yes[i] = f->no[i] = i;
        if (f->mode[i] != LEAF &&
            ((f->yes[i] = find(n, places, tree[i], yes[i])) < 0 || (f->no[i] = find(n, places, tree[i], no[i])) < 0))
            return mx_error_code();
    }
    return find_roots(f);
}

/* A weight of a leaf for a target. */
static mx_code add_weight(const mx_onnx_in *n, forest *f, int64_t node, int64_t target, float weight)
{
    if (node < 0 || node >= f->nodes || target < 0 || target >= f->targets)
        return mx_has_error() ? mx_error_code()
                              : mx_onnx_fail(n, MX_ERR_FILE, "a weight is of target %lld", (long long)target);
    ((float *)mx_data(f->weights))[node * f->targets + target] += weight;
    f->negative |= weight < 0;
    return MX_OK;
}

static mx_code new_weights(const mx_onnx_in *n, forest *f)
{
    if (f->targets < 1 || f->targets > (1 << 26) / (f->nodes + 1))
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "%lld nodes with %lld results", (long long)f->nodes,
                            (long long)f->targets);
    f->weights = mx_zeros(.shape = MX_DIMS(f->nodes, f->targets));
    return f->weights ? MX_OK : mx_error_code();
}

static mx_code take_weights(const mx_onnx_in *n, forest *f, const mx_dict *places, const char *kind)
{
    char name[5][64];
    static const char *const parts[] = {"treeids", "nodeids", "ids", "weights", "weights_as_tensor"};
    for (int i = 0; i < 5; i++)
        snprintf(name[i], sizeof name[i], "%s_%s", kind, parts[i]);
    mx_array *trees = mx_onnx_list(n, name[0], false);
    const int64_t count = trees ? trees->size : 0;
    const int64_t *tree = ints(n, name[0], count), *node = ints(n, name[1], count), *target = ints(n, name[2], count);
    const float *weight = floats(n, name[3], name[4], count);
    if (!tree || !node || !target || !weight || new_weights(n, f))
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t i = 0; !code && i < count; i++)
        code = add_weight(n, f, find(n, places, tree[i], node[i]), target[i], weight[i]);
    return code;
}

static mx_code take_nodes(const mx_onnx_in *n, forest *f)
{
    mx_array *ids = mx_onnx_list(n, "nodes_nodeids", false);
    f->nodes = ids ? ids->size : 0;
    if (f->nodes < 1)
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "there are no nodes");
    if (!new_tables(f))
        return mx_error_code();
    const int64_t *feature = ints(n, "nodes_featureids", f->nodes);
    const float *value = floats(n, "nodes_values", "nodes_values_as_tensor", f->nodes);
    const bool missing = mx_onnx_has(n, "nodes_missing_value_tracks_true");
    const int64_t *tracks = feature && value && missing ? ints(n, "nodes_missing_value_tracks_true", f->nodes) : NULL;
    modes m = {f, 0};
    if (!feature || !value || (missing && !tracks))
        return mx_error_code();
    if (mx_onnx_texts(n, "nodes_modes", take_mode, &m) != f->nodes)
        return mx_onnx_fail(n, MX_ERR_FILE, "nodes_modes has not %lld texts", (long long)f->nodes);
    for (int64_t i = 0; i < f->nodes; i++) {
        f->feature[i] = feature[i];
        f->value[i] = value[i];
        f->tracks[i] = tracks && tracks[i];
    }
    return MX_OK;
}

static mx_code take_forest(const mx_onnx_in *n, forest *f, const char *kind)
{
    mx_dict places = {0};
    mx_code code = take_nodes(n, f);
    code = code ? code : link_nodes(n, f, &places);
    code = code ? code : take_weights(n, f, &places, kind);
    mx_dict_free(&places);
    return code;
}

/* ---- attributes of TreeEnsemble ----------------------------------------------------------------------------------- */

/* Inner nodes come first in our table, leaves after them. */
static mx_code take_ensemble(const mx_onnx_in *n, forest *f)
{
    mx_array *ids = mx_onnx_list(n, "nodes_featureids", false), *targets = mx_onnx_list(n, "leaf_targetids", false),
             *roots = mx_onnx_list(n, "tree_roots", false),
             *kinds = mx_onnx_cast(mx_onnx_tensor(n, "nodes_modes"), MX_INT64);
    const int64_t inner = ids ? ids->size : 0, leaves = targets ? targets->size : 0;
    f->nodes = inner + leaves;
    if (inner < 1 || leaves < 1 || !roots || !kinds || kinds->size != inner || !new_tables(f) || new_weights(n, f))
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "there are no nodes, leaves or roots");
    const int64_t *yes = ints(n, "nodes_truenodeids", inner), *yes_leaf = ints(n, "nodes_trueleafs", inner),
                  *no = ints(n, "nodes_falsenodeids", inner), *no_leaf = ints(n, "nodes_falseleafs", inner),
                  *kind = mx_data(kinds);
    const float *split = floats(n, "", "nodes_splits", inner), *weight = floats(n, "", "leaf_weights", leaves);
    if (!yes || !yes_leaf || !no || !no_leaf || !split || !weight)
        return mx_error_code();
    mx_code code = MX_OK;
    for (int64_t i = 0; i < f->nodes; i++) {
        const bool leaf = i >= inner;
        f->mode[i] = leaf ? LEAF : kind[i] >= 0 && kind[i] < MODES ? (int)kind[i] : -1;
        f->feature[i] = leaf ? 0 : ((const int64_t *)mx_data(ids))[i];
        f->value[i] = leaf ? 0 : split[i];
        f->yes[i] = leaf ? i : yes[i] + (yes_leaf[i] ? inner : 0);
        f->no[i] = leaf ? i : no[i] + (no_leaf[i] ? inner : 0);
        if (f->mode[i] < 0 || f->yes[i] < 0 || f->yes[i] >= f->nodes || f->no[i] < 0 || f->no[i] >= f->nodes)
            return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "node %lld leads nowhere, or its mode is not supported",
                                (long long)i);
        if (leaf)
            code = code ? code : add_weight(n, f, i, ((const int64_t *)mx_data(targets))[i - inner], weight[i - inner]);
    }
    for (int64_t i = 0; !code && i < roots->size && f->trees < f->nodes; i++) {
        const int64_t root = ((const int64_t *)mx_data(roots))[i];
        f->root[f->trees++] = root;
        if (root < 0 || root >= inner)
            return mx_onnx_fail(n, MX_ERR_FILE, "there is no root %lld", (long long)root);
    }
    return code;
}

/* ---- the deepest leaf ---------------------------------------------------------------------------------------------- */

/* Steps until every walk is at a leaf; a walk that is longer than there are nodes never ends. */
static mx_code measure(const mx_onnx_in *n, forest *f)
{
    int64_t *level = table(f->nodes, sizeof *level), *next = table(2 * f->nodes, sizeof *next), count = 0;
    if (!level || !next)
        return mx_error_code();
    for (int64_t t = 0; t < f->trees; t++)
        next[count++] = f->root[t];
    for (int64_t i = 0; i < count; i++) {
        const int64_t node = next[i], to[2] = {f->yes[node], f->no[node]};
        f->depth = level[node] > f->depth ? level[node] : f->depth;
        for (int k = 0; k < 2 && f->mode[node] != LEAF; k++) {
            if (count >= 2 * f->nodes)
                return mx_onnx_fail(n, MX_ERR_FILE, "its trees have a cycle");
            level[to[k]] = level[node] + 1;
            next[count++] = to[k];
        }
        if (f->mode[node] != LEAF)
            f->used[f->mode[node]] = true;
    }
    return f->depth < 256 ? MX_OK : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "a tree of %lld levels", (long long)f->depth);
}

/* ---- walking down -------------------------------------------------------------------------------------------------- */

static mx_array *compared(int mode, mx_array *x, mx_array *value)
{
    switch (mode) {
    case LEQ: return mx_lesser_equal(x, value);
    case LT: return mx_lesser(x, value);
    case GTE: return mx_greater_equal(x, value);
    case GT: return mx_greater(x, value);
    case EQ: return mx_equal(x, value);
    default: return mx_not_equal(x, value);
    }
}

typedef struct walk {
    mx_array *x, *start;                           /* all numbers (N F), and where each row begins (N, 1) */
    mx_array *feature, *value, *yes, *no, *tracks; /* (nodes); tracks NULL: missing numbers go to `no` */
    mx_array *is[MODES]; /* (nodes) 1 where a node has the mode; NULL: no or all nodes have it */
} walk;

static mx_array *at(mx_array *list, mx_array *node) { return mx_take(list, node); }

/* node (N, trees) -> the next ones */
static mx_array *step(const walk *w, const forest *f, mx_array *node)
{
    mx_array *x = mx_take(w->x, mx_add(at(w->feature, node), w->start)), *value = at(w->value, node), *go = NULL;
    for (int mode = 0; mode < MODES; mode++)
        if (f->used[mode]) {
            mx_array *own = compared(mode, x, value);
            own = w->is[mode] ? mx_mul(own, at(w->is[mode], node)) : own;
            go = go ? mx_add(go, own) : own;
        }
    if (w->tracks)
        go = mx_maximum(go, mx_mul(mx_not_equal(x, x), at(w->tracks, node)));
    return mx_where(go, at(w->yes, node), at(w->no, node));
}

static mx_array *numbers(const forest *f, const int64_t *from)
{
    return mx_array_from(MX_DIMS(f->nodes), MX_INT64, from);
}

static mx_array *of_mode(const forest *f, int mode)
{
    mx_array *list = mx_zeros(.shape = MX_DIMS(f->nodes));
    for (int64_t i = 0; list && i < f->nodes; i++)
        ((float *)mx_data(list))[i] = f->mode[i] == mode;
    return list;
}

static walk prepare(const forest *f, mx_array *x)
{
    int kinds = 0;
    bool missing = false;
    for (int i = 0; i < MODES; i++)
        kinds += f->used[i];
    for (int64_t i = 0; i < f->nodes; i++)
        missing |= f->tracks[i] != 0;
    const double width = (double)x->shape[1];
    mx_array *rows = mx_onnx_cast(mx_arange_like(x, .axis = 0), MX_INT64);
    walk w = {.x = mx_reshape(x, .shape = MX_DIMS(-1)),
              .start = mx_expand_dims(mx_mul_scalar(rows, .scalar = width), .axis = 1),
              .feature = numbers(f, f->feature),
              .value = mx_array_from(MX_DIMS(f->nodes), MX_FLOAT32, f->value),
              .yes = numbers(f, f->yes),
              .no = numbers(f, f->no),
              .tracks = missing ? mx_array_from(MX_DIMS(f->nodes), MX_FLOAT32, f->tracks) : NULL};
    for (int i = 0; i < MODES; i++)
        w.is[i] = f->used[i] && kinds > 1 ? of_mode(f, i) : NULL;
    return w;
}

/* Results of all trees together, (N, targets). */
static mx_array *run(const mx_onnx_in *n, forest *f, mx_array *x)
{
    char how[64];
    if (!x || x->ndim != 2 || x->shape[1] < 1)
        return mx_has_error() ? NULL
                              : (mx_onnx_fail(n, MX_ERR_SHAPE, "wanted rows of a known number of features"), NULL);
    for (int64_t i = 0; i < f->nodes; i++)
        if (f->mode[i] != LEAF && (f->feature[i] < 0 || f->feature[i] >= x->shape[1]))
            return mx_onnx_fail(n, MX_ERR_FILE, "node %lld reads feature %lld of %lld", (long long)i,
                                (long long)f->feature[i], (long long)x->shape[1]),
                   NULL;
        else if (f->mode[i] == LEAF)
            f->feature[i] = 0;
    if (measure(n, f))
        return NULL;
    if (!f->trees)
        return mx_onnx_fail(n, MX_ERR_FILE, "its trees have no roots"), NULL;
    const walk w = prepare(f, mx_onnx_cast(x, MX_FLOAT32));
    mx_array *roots = mx_array_from(MX_DIMS(1, f->trees), MX_INT64, f->root);
    mx_array *node = mx_add(mx_zeros_like(w.start), roots);
    for (int64_t i = 0; node && i < f->depth; i++)
        node = step(&w, f, node);
    mx_array *leaves = mx_take(f->weights, node); /* (N, trees, targets) */
    mx_onnx_text(n, "aggregate_function", how, "SUM");
    const int64_t kind = mx_onnx_int(n, "aggregate_function",
                                     how[0] == 'A'   ? 0
                                     : how[1] == 'U' ? 1
                                     : how[1] == 'I' ? 2
                                                     : 3);
    return kind == 0   ? mx_mean(leaves, .axis = MX_DIMS(1))
           : kind == 1 ? mx_sum(leaves, .axis = MX_DIMS(1))
           : kind == 2 ? mx_min(leaves, .axis = MX_DIMS(1))
                       : mx_max(leaves, .axis = MX_DIMS(1));
}

static mx_array *with_base(const mx_onnx_in *n, mx_array *y)
{
    mx_array *base = y ? mx_onnx_list(n, "base_values", true) : NULL;
    return base ? mx_add(y, base) : y;
}

/* ---- operators ------------------------------------------------------------------------------------------------- */

static mx_code read_regressor(mx_onnx_in *n)
{
    forest f = {.targets = mx_onnx_int(n, "n_targets", 1)};
    if (take_forest(n, &f, "target"))
        return mx_error_code();
    mx_array *y = with_base(n, run(n, &f, n->in[0]));
    n->out[0] = y ? mx_onnx_transformed(n, y) : NULL;
    return MX_OK;
}

static mx_code read_ensemble(mx_onnx_in *n)
{
    forest f = {.targets = mx_onnx_int(n, "n_targets", 1)};
    if (take_ensemble(n, &f))
        return mx_error_code();
    mx_array *y = run(n, &f, n->in[0]);
    const int64_t after = mx_onnx_int(n, "post_transform", 0);
    if (y && after > 2)
        return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "post_transform=%lld is not supported", (long long)after);
    y = after == 1 ? mx_softmax(y, .axis = -1) : after == 2 ? mx_sigmoid(y) : y;
    n->out[0] = mx_onnx_cast(y, (mx_dtype)n->in[0]->dtype);
    return MX_OK;
}

/* Two classes with weights for one only: a probability, or a score around 0. */
static mx_array *second_class(const mx_onnx_in *n, const forest *f, mx_array *score, mx_array **best)
{
    char how[64];
    mx_onnx_text(n, "post_transform", how, "NONE");
    const bool logistic = !strcmp(how, "LOGISTIC");
    *best = mx_reshape(mx_greater_scalar(score, .scalar = f->negative ? 0 : 0.5), .shape = MX_DIMS(-1));
    mx_array *second = logistic ? mx_sigmoid(score) : score;
    mx_array *first = f->negative && !logistic ? mx_negative(score) : mx_rminus_scalar(second, .scalar = 1);
    return mx_concat(MX_ARRAYS(first, second), .num_args = 2, .dim = 1);
}

static mx_code read_classifier(mx_onnx_in *n)
{
    mx_array *labels = mx_onnx_list(n, "classlabels_int64s", false), *ids = mx_onnx_list(n, "class_ids", false),
             *best = NULL;
    forest f = {.targets = labels ? labels->size : 0};
    if (!labels)
        return mx_has_error() ? mx_error_code()
                              : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its labels are texts; there are no such arrays");
    bool one = f.targets == 2 && ids && ids->size;
    for (int64_t i = 0; one && i < ids->size; i++)
        one = ((const int64_t *)mx_data(ids))[i] == ((const int64_t *)mx_data(ids))[0];
    if (take_forest(n, &f, "class"))
        return mx_error_code();
    mx_array *scores = run(n, &f, n->in[0]);
    if (!scores)
        return mx_error_code();
    if (one) {
        const int64_t which = ((const int64_t *)mx_data(ids))[0];
        mx_array *own = mx_slice_axis(scores, .axis = 1, .begin = which, .end = which + 1);
        scores = second_class(n, &f, with_base(n, own), &best);
    } else {
        scores = with_base(n, scores);
        best = mx_argmax(scores, .axis = 1);
        scores = mx_onnx_transformed(n, scores);
    }
    n->out[0] = mx_onnx_labels(n, best);
    if (n->n_out > 1)
        n->out[1] = scores;
    return mx_has_error() ? mx_error_code() : MX_OK;
}

const mx_onnx_row mx_onnx_trees[] = {READ("TreeEnsembleRegressor", read_regressor),
                                     READ("TreeEnsembleClassifier", read_classifier),
                                     READ("TreeEnsemble", read_ensemble),
                                     {0}};
