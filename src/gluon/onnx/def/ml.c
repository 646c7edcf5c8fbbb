/* Operators of classic learners (domain ai.onnx.ml): linear models, scaling, labels.  SPDX-License-Identifier: Apache-2.0
 *
 * Labels are numbers: there are no arrays of texts.  ZipMap, which makes a list of maps, hands on the array that it gets. */
#include "gluon/onnx/def/ml.h"

#include <math.h>
#include <string.h>

#include "ndarray/array.h"

/* ---- scores ---------------------------------------------------------------------------------------------------- */

mx_array *mx_onnx_transformed(const mx_onnx_in *n, mx_array *scores)
{
    char how[64];
    mx_onnx_text(n, "post_transform", how, "NONE");
    if (!strcmp(how, "LOGISTIC"))
        return mx_sigmoid(scores);
    if (!strcmp(how, "SOFTMAX"))
        return mx_softmax(scores, .axis = -1);
    if (!strcmp(how, "NONE"))
        return scores;
    return mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "post_transform=%s is not supported", how), NULL;
}

mx_array *mx_onnx_labels(const mx_onnx_in *n, mx_array *indices)
{
    mx_array *labels = mx_onnx_list(n, "classlabels_ints", false);
    labels = labels || mx_has_error() ? labels : mx_onnx_list(n, "classlabels_int64s", false);
    if (!labels && !mx_has_error())
        mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its labels are texts; there are no such arrays");
    return labels ? mx_take(labels, indices) : NULL;
}

/* Rows of numbers of any type, (N, features). */
static mx_array *rows(mx_onnx_in *n)
{
    mx_array *x = mx_onnx_cast(n->in[0], n->in[0]->dtype == MX_FLOAT64 ? MX_FLOAT64 : MX_FLOAT32);
    return x && x->ndim == 1 ? mx_reshape(x, .shape = MX_DIMS(1, -1)) : x;
}

/* x W' + b; units: rows of W */
static mx_array *linear(mx_onnx_in *n, int64_t units)
{
    mx_array *x = rows(n), *w = mx_onnx_list(n, "coefficients", true), *b = mx_onnx_list(n, "intercepts", true);
    if (!x || !w || units < 1 || w->size % units || (b && b->size != units))
        return mx_has_error() ? NULL : (mx_onnx_fail(n, MX_ERR_FILE, "coefficients and intercepts do not fit"), NULL);
    const mx_dtype type = (mx_dtype)x->dtype;
    mx_array *y = mx_dot(x, mx_onnx_cast(mx_reshape(w, .shape = MX_DIMS(units, -1)), type), .transpose_b = true);
    return b ? mx_add(y, mx_onnx_cast(b, type)) : y;
}

static mx_code read_regressor(mx_onnx_in *n)
{
    mx_array *y = linear(n, mx_onnx_int(n, "targets", 1));
    n->out[0] = y ? mx_onnx_transformed(n, y) : NULL;
    return MX_OK;
}

/* One score for two classes: that of the second one, and its opposite. */
static mx_array *both_classes(const mx_onnx_in *n, mx_array *score)
{
    char how[64];
    mx_onnx_text(n, "post_transform", how, "NONE");
    mx_array *second = strcmp(how, "LOGISTIC") ? score : mx_sigmoid(score);
    mx_array *first = strcmp(how, "LOGISTIC") ? mx_negative(score) : mx_rminus_scalar(second, .scalar = 1);
    return mx_concat(MX_ARRAYS(first, second), .num_args = 2, .dim = 1);
}

static mx_code read_classifier(mx_onnx_in *n)
{
    mx_array *intercepts = mx_onnx_list(n, "intercepts", true), *labels = mx_onnx_list(n, "classlabels_ints", false);
    const int64_t classes = labels ? labels->size : intercepts ? intercepts->size : 0;
    const bool one = intercepts && intercepts->size == 1 && classes == 2;
    mx_array *scores = mx_has_error() ? NULL : linear(n, one ? 1 : classes);
    if (!scores)
        return mx_error_code();
    mx_array *second = mx_reshape(mx_greater_scalar(scores, .scalar = 0), .shape = MX_DIMS(-1));
    mx_array *best = one ? second : mx_argmax(scores, .axis = 1);
    n->out[0] = *n->out_name[0] ? mx_onnx_labels(n, best) : NULL;
    if (n->n_out > 1)
        n->out[1] = one ? both_classes(n, scores) : mx_onnx_transformed(n, scores);
    return mx_has_error() ? mx_error_code() : MX_OK;
}

/* ---- features -------------------------------------------------------------------------------------------------- */

/* A list, or 0-d if it is one number for all features. */
static mx_array *list_or_one(const mx_onnx_in *n, const char *attr)
{
    mx_array *list = mx_onnx_list(n, attr, true);
    return list && list->size == 1 ? mx_onnx_as_scalar(list) : list;
}

static mx_code read_scaler(mx_onnx_in *n)
{
    mx_array *x = mx_onnx_cast(n->in[0], MX_FLOAT32), *offset = list_or_one(n, "offset"),
             *scale = list_or_one(n, "scale");
    x = offset ? mx_sub(x, offset) : x;
    n->out[0] = scale ? mx_mul(x, scale) : x;
    return MX_OK;
}

/* Rows whose largest element, sum of sizes or length is 1; rows of zeros stay. */
static mx_code read_normalizer(mx_onnx_in *n)
{
    char how[64];
    mx_array *x = mx_onnx_cast(n->in[0], MX_FLOAT32);
    const mx_dims last = MX_DIMS(-1);
    mx_onnx_text(n, "norm", how, "MAX");
    mx_array *size = !strcmp(how, "L1")   ? mx_sum(mx_abs(x), .axis = last, .keepdims = true)
                     : !strcmp(how, "L2") ? mx_sqrt(mx_sum(mx_square(x), .axis = last, .keepdims = true))
                                          : mx_max(x, .axis = last, .keepdims = true);
    mx_array *divisor = mx_add(size, mx_equal_scalar(size, .scalar = 0));
    n->out[0] = mx_div(x, divisor);
    return MX_OK;
}

static mx_code read_binarizer(mx_onnx_in *n)
{
    const mx_dtype type = (mx_dtype)n->in[0]->dtype;
    mx_array *over = mx_greater_scalar(n->in[0], .scalar = mx_onnx_float(n, "threshold", 0));
    n->out[0] = mx_onnx_cast(over, type);
    return MX_OK;
}

/* Numbers that are missing, NaN unless another one is named. */
static mx_code read_imputer(mx_onnx_in *n)
{
    mx_array *x = n->in[0], *value = list_or_one(n, "imputed_value_floats");
    value = value || mx_has_error() ? value : mx_onnx_list(n, "imputed_value_int64s", false);
    if (!value)
        return mx_has_error() ? mx_error_code() : mx_onnx_fail(n, MX_ERR_FILE, "there is no imputed value");
    const bool whole = !mx_dtype_is_float(x->dtype);
    const double gone =
        whole ? (double)mx_onnx_int(n, "replaced_value_int64", 0) : mx_onnx_float(n, "replaced_value_float", NAN);
    mx_array *missing = isnan(gone) ? mx_not_equal(x, x) : mx_equal_scalar(x, .scalar = gone);
    mx_array *all = mx_broadcast_like(mx_reshape(mx_onnx_cast(value, (mx_dtype)x->dtype), .shape = MX_DIMS(1, -1)), x);
    n->out[0] = mx_where(missing, all, x);
    return MX_OK;
}

static mx_code read_extractor(mx_onnx_in *n)
{
    n->out[0] = mx_take(n->in[0], mx_reshape(n->in[1], .shape = MX_DIMS(-1)), .axis = -1);
    if (n->out[0] && n->out[0]->ndim == 1)
        n->out[0] = mx_reshape(n->out[0], .shape = MX_DIMS(1, -1));
    return MX_OK;
}

static mx_code read_vectorizer(mx_onnx_in *n)
{
    mx_array **parts = n->in;
    for (int i = 0; i < n->n_in; i++) {
        parts[i] = mx_onnx_cast(n->in[i], MX_FLOAT32);
        parts[i] = parts[i] && parts[i]->ndim == 1 ? mx_reshape(parts[i], .shape = MX_DIMS(-1, 1)) : parts[i];
    }
    n->out[0] = mx_concat((mx_arrays){parts, n->n_in}, .num_args = n->n_in, .dim = 1);
    return MX_OK;
}

static mx_code read_zip_map(mx_onnx_in *n) { return n->out[0] = mx_copy(n->in[0]), MX_OK; }

/* ---- labels ---------------------------------------------------------------------------------------------------- */

/* Keys or values of a label encoder: a list of integers or floats, or a tensor. */
static mx_array *side(const mx_onnx_in *n, const char *what)
{
    static const char *const kinds[] = {"int64s", "floats"};
    char name[64];
    for (int i = 0; i < 2; i++) {
        strcpy(stpcpy(stpcpy(name, what), "_"), kinds[i]);
        mx_array *list = mx_onnx_list(n, name, i == 1);
        if (list || mx_has_error())
            return list;
    }
    strcpy(stpcpy(name, what), "_tensor");
    return mx_onnx_tensor(n, name);
}

static mx_array *fallback(const mx_onnx_in *n, mx_dtype type)
{
    mx_array *tensor = mx_onnx_has(n, "default_tensor") ? mx_onnx_tensor(n, "default_tensor") : NULL;
    const double number =
        mx_dtype_is_float(type) ? mx_onnx_float(n, "default_float", -0.0) : (double)mx_onnx_int(n, "default_int64", -1);
    return tensor ? mx_onnx_cast(mx_onnx_as_scalar(tensor), type) : mx_onnx_scalar(number, type);
}

/* Every element is compared with all keys; a key is there once. */
static mx_code read_encoder(mx_onnx_in *n)
{
    mx_array *keys = side(n, "keys"), *values = keys ? side(n, "values") : NULL, *x = n->in[0];
    if (!keys || !values || keys->size != values->size)
        return mx_has_error()
                   ? mx_error_code()
                   : mx_onnx_fail(n, MX_ERR_UNSUPPORTED, "its keys or values are texts, or of different numbers");
    const mx_dtype type = (mx_dtype)values->dtype;
    mx_array *same = mx_equal(mx_expand_dims(mx_onnx_cast(x, MX_FLOAT64), .axis = -1), mx_onnx_cast(keys, MX_FLOAT64));
    mx_array *found = mx_sum(mx_mul(same, mx_onnx_cast(values, MX_FLOAT64)), .axis = MX_DIMS(-1));
    mx_array *any = mx_sum(same, .axis = MX_DIMS(-1));
    mx_array *other = mx_mul(mx_rminus_scalar(any, .scalar = 1), mx_onnx_cast(fallback(n, type), MX_FLOAT64));
    n->out[0] = mx_onnx_cast(mx_add(found, other), type);
    return MX_OK;
}

const mx_onnx_row mx_onnx_ml[] = {
    READ("LinearRegressor", read_regressor),
    READ("LinearClassifier", read_classifier),
    READ("Scaler", read_scaler),
    READ("Normalizer", read_normalizer),
    READ("Binarizer", read_binarizer),
    READ("Imputer", read_imputer),
    READ("ArrayFeatureExtractor", read_extractor),
    READ("FeatureVectorizer", read_vectorizer),
    READ("ZipMap", read_zip_map),
    READ("LabelEncoder", read_encoder),
    {0}};
