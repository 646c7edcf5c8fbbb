/* Which operators compute in which precision.  What is not here takes its inputs as they come.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "gluon/amp.h"

/* These gain most, and add up in float32 inside. */
static const char *const products[] = {
    "Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot", "_linalg_gemm2", "_linalg_gemm",
    "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt",
    "_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt", NULL};
/* Losses. */
static const char *const losses[] = {
    "SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput",
    "MakeLoss", "make_loss", "CTCLoss", "softmax_cross_entropy", "smooth_l1", "IdentityAttachKLSparseReg", NULL};
/* Large results of small inputs, small ones of large inputs, long sums, order, linear algebra, coordinates. */
static const char *const exact[] = {
    "softmax", "log_softmax", "softmin", "SoftmaxActivation", "exp", "expm1", "log", "log10", "log1p", "log2",
    "rsqrt", "rcbrt", "reciprocal", "square", "erfinv", "gamma", "gammaln", "sinh", "cosh", "tan", "arccos",
    "arccosh", "arcsin", "arcsinh", "arctanh", "_power", "_power_scalar", "_rpower_scalar", "broadcast_power",
    "_rdiv_scalar", "sum", "nansum", "mean", "prod", "nanprod", "norm", "moments", "cumsum", "LayerNorm",
    "GroupNorm", "InstanceNorm", "L2Normalization", "LRN", "topk", "sort", "argsort", "_linalg_det",
    "_linalg_inverse", "_linalg_potrf", "_linalg_potri", "_linalg_sumlogdiag", "_linalg_syevd", "_linalg_trsm",
    "BilinearSampler", "GridGenerator", "SpatialTransformer", "ROIPooling", "_contrib_ROIAlign", "_contrib_box_nms",
    "_contrib_box_iou", "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget",
    "Correlation", NULL};
/* Several inputs of one type. */
static const char *const alike[] = {
    "elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_mod", "_maximum", "_minimum", "_hypot",
    "_equal", "_not_equal", "_greater", "_greater_equal", "_lesser", "_lesser_equal", "broadcast_add",
    "broadcast_sub", "broadcast_mul", "broadcast_div", "broadcast_mod", "broadcast_maximum", "broadcast_minimum",
    "broadcast_hypot", "broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal",
    "broadcast_lesser", "broadcast_lesser_equal", "Concat", "stack", "add_n", "where", "khatri_rao", "LeakyReLU",
    NULL};
/* Data of any precision with statistics in float32. */
static const char *const normal[] = {
    "BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU", NULL};

static const struct {
    const char *const *ops; /* NULL-ended */
    mx_precision precision;
    bool loss;
} lists[] = {
    {products, MX_PRECISION_TARGET, false}, {losses, MX_PRECISION_FLOAT32, true}, {exact, MX_PRECISION_FLOAT32, false},
    {alike, MX_PRECISION_WIDEST, false},    {normal, MX_PRECISION_DATA, false},
};

static const mx_amp_row conditions[] = {
    {"Activation", MX_PRECISION_FLOAT32, false, "act_type", "softrelu"},
    {"LeakyReLU", MX_PRECISION_FLOAT32, false, "act_type", "elu"},
    {"LeakyReLU", MX_PRECISION_FLOAT32, false, "act_type", "selu"},
};

bool mx_amp_row_at(int i, mx_amp_row *row)
{
    if (!row || i < 0)
        return false;
    for (size_t list = 0; list < sizeof lists / sizeof *lists; list++)
        for (const char *const *op = lists[list].ops; *op; op++)
            if (!i--) {
                *row = (mx_amp_row){*op, lists[list].precision, lists[list].loss, NULL, NULL};
                return true;
            }
    if (i >= (int)(sizeof conditions / sizeof *conditions))
        return false;
    *row = conditions[i];
    return true;
}
