"""Which operators run in which precision when a graph is converted.

TARGET: products, which gain and lose nothing in 16 bits.  FLOAT32: those whose results need the digits or the range.
CONDITIONAL: float32 for some values of an attribute.  WIDEST: several inputs of one type.  BOTH: data in any precision,
with parameters in float32.  What is in none of them takes its data as it comes.
"""

TARGET = [
    "Convolution", "Deconvolution", "FullyConnected", "RNN", "dot", "batch_dot", "_linalg_gemm2", "_linalg_gemm",
    "_contrib_interleaved_matmul_selfatt_qk", "_contrib_interleaved_matmul_selfatt_valatt",
    "_contrib_interleaved_matmul_encdec_qk", "_contrib_interleaved_matmul_encdec_valatt"]

LOSSES = [
    "SoftmaxOutput", "LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput", "SVMOutput",
    "MakeLoss", "make_loss", "CTCLoss", "softmax_cross_entropy", "smooth_l1", "IdentityAttachKLSparseReg"]

FLOAT32 = LOSSES + [
    "softmax", "log_softmax", "softmin", "SoftmaxActivation", "masked_softmax", "masked_log_softmax", "exp", "expm1",
    "log", "log10", "log1p", "log2", "rsqrt", "rcbrt", "reciprocal", "square", "erfinv", "gamma", "gammaln", "sinh",
    "cosh", "tan", "arccos", "arccosh", "arcsin", "arcsinh", "arctanh", "_power", "_power_scalar", "_rpower_scalar",
    "broadcast_power", "_rdiv_scalar", "sum", "nansum", "mean", "prod", "nanprod", "norm", "moments", "cumsum",
    "LayerNorm", "GroupNorm", "InstanceNorm", "L2Normalization", "LRN", "topk", "sort", "argsort", "_linalg_det",
    "_linalg_inverse", "_linalg_potrf", "_linalg_potri", "_linalg_sumlogdiag", "_linalg_syevd", "_linalg_trsm",
    "BilinearSampler", "GridGenerator", "SpatialTransformer", "ROIPooling", "_contrib_ROIAlign", "_contrib_box_nms",
    "_contrib_box_iou", "_contrib_MultiBoxDetection", "_contrib_MultiBoxPrior", "_contrib_MultiBoxTarget",
    "Correlation", "Custom"]

CONDITIONAL = [("Activation", "act_type", ["softrelu"]), ("LeakyReLU", "act_type", ["elu", "selu"])]

WIDEST = [
    "elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_plus", "_minus", "_mul", "_div", "_Plus",
    "_Minus", "_Mul", "_Div", "_mod", "_maximum", "_minimum", "_hypot", "_equal", "_not_equal", "_greater",
    "_greater_equal", "_lesser", "_lesser_equal", "broadcast_add", "broadcast_sub", "broadcast_mul", "broadcast_div",
    "broadcast_plus", "broadcast_minus", "broadcast_mod", "broadcast_maximum", "broadcast_minimum",
    "broadcast_hypot", "broadcast_equal", "broadcast_not_equal", "broadcast_greater", "broadcast_greater_equal",
    "broadcast_lesser", "broadcast_lesser_equal", "Concat", "concat", "stack", "add_n", "ElementWiseSum", "where",
    "khatri_rao"]

BOTH = [
    "BatchNorm", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU"]
