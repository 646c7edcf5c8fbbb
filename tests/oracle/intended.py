"""Intended differences from MXNet 1.9.1, with the reason for each."""

OPERATORS = {
    "Pooling": "its max pooling gives the gradient to a wrong element when recorded in prediction mode",
    "LeakyReLU": "its selu gradient and its rrelu in prediction mode do not follow the formulas",
    "SoftmaxActivation": "its instance mode takes only the last axis of an instance, which is documented otherwise",
    "RNN": "it ignores sequence lengths and state clipping on the CPU",
    "GridGenerator": "it divides by zero for a target of one row or column",
    "scatter_nd": "with repeated indices the last one wins here; there the order is not defined",
    "_unravel_index": "it flattens arrays of indices with several axes",
    "_image_random_saturation": "its gray is 0.114 of blue alone",
    "_image_flip_left_right": "its gradient is not flipped, and its result in place can be half written",
    "_image_flip_top_bottom": "the same",
    "_contrib_quantize": "its CPU kernels ignore the lower end of the range for uint8, which is documented otherwise",
    "_contrib_quantize_v2": "its CPU kernels scale by 127.5 and 255.5, which is documented otherwise",
}
# In MXNet these read uninitialised memory or crash: results differ from run to run.
UNDEFINED_THERE = {"_image_random_hue", "_image_random_color_jitter", "gather_nd", "_contrib_ROIAlign",
                   "_contrib_PSROIPooling", "_contrib_DeformablePSROIPooling",
                   "_image_adjust_lighting", "_image_random_lighting"}

AREAS = {
    "layer {'expression': 'nn.Conv2D(4, 3, groups=2, dilation=2)', 'shape': (1, 2, 9, 9)}":
        "it prints the input channels of one group as those of the layer",
    "layer {'expression': 'nn.Conv2DTranspose(3, 3, strides=2, output_padding=1)', 'shape': (2, 4, 5, 5)}":
        "it prints input and output channels of transposed convolutions the wrong way round",
    "layer {'expression': 'nn.Conv1DTranspose(3, 3)', 'shape': (2, 4, 5)}": "the same",
    "layer {'expression': 'nn.SELU()', 'shape': (3, 4)}": "its gradient does not follow the formula for negative numbers",
}

EXCEPTIONS = {}  # call -> reason; none so far

# Rules of MXNet 1.9.1 that are not followed: what -> reason.  test_rules.py checks those that are rules of rules.py.
BEHAVIOURS = {
    "ImageRecordIter(mean_img=, scale=)": "it computes the mean of scaled images and subtracts it from unscaled ones",
    "NDArrayIter(data, shorter label)": "it fails in the middle of an epoch; here it is an error at once",
    "BatchSampler(last_batch='bad')": "it fails after the last batch; here at the first use",
    "download(url) without a name": "statuses that are final (404 ...) are not tried again",
    "x[i] = y of recorded arrays inside record()": "the gradient flows through the assignment; there it is an error after the write",
    "a second backward through a constant that two graphs share": "there a constant becomes part of the first graph and is freed with it",
    "second derivatives of x * 3 and degrees(x)": "zero, as for radians(x); there they are an error",
    "second derivatives of arcsinh and arccosh": "their sign is wrong there",
    "arrays of size 0 and without axes, np_shape off": "every operator computes with them; there most are an error",
    "operators of mx.nd on arrays of mx.np": "they compute with them and give arrays of mx.np, so blocks of the first interface "
        "run with both; there they are an error, as arrays of both interfaces in one call are here, too",
    "files written with np_shape on or off": "both load in both modes; there only in the mode in which they were written",
    "ctx='cpu'": "a device may be given by its name",
    "clip of a sparse array to a range without 0": "the result is dense; there it is an error",
    "errors that depend on values (a negative scale, an index out of range, a matrix that is not positive definite)":
        "they come from the call on the CPU, where the program can see the cause; there when a value is read",
    "gradients of relu, LeakyReLU and hard_sigmoid at NaN": "NaN counts as not above the threshold of a relu, so that fused and "
        "single kernels agree on every device, and as inside of a range; there NaN, 1 and 0.  The results are NaN in both",
    "third output of SyncBatchNorm": "as that of BatchNorm, 1 / sqrt(var + eps), which its gradient reads; there the variance",
    "nd.BatchNorm(fix_gamma=True)": "leaves gamma alone, as hybridized blocks do in both; there a call on arrays writes ones into "
        "it.  Executors write them in both",
    "RandomBrightness(-b) and its relatives": "as b; there factors from max(0, 1 + b) down to 1 - b",
    "storage of gradients in simple_bind": "row_sparse for variables of that storage and for weights that are used by rows alone "
        "(Embedding with sparse_grad, dot with a csr); there by every operator's rule, csr and through products too",
    "outputs of executors before the first forward": "dense; they get the storage of the result with it",
    "CustomOp with sparse inputs": "computes with dense copies if it has no infer_storage_type; there it is an error.  Gradients "
        "are converted to the storage that infer_storage_type_backward asks for; there it must be what arrives",
    "Trainer.step with a gradient that was never computed": "an error before any weight changes; there after the store has updated",
    "Trainer(update_on_kvstore=False), ignore_stale_grad=True": "all copies of a parameter stay equal; there those without a new "
                                                                "gradient are left behind",
    "Trainer(update_on_kvstore=True) on one context": "an error that says why; there an AttributeError of None",
    "weights written in place while a store updates them": "they count in the next step; there they are lost",
    "kv.create('nope'), Trainer(kvstore='nope')": "an error at once; there at the first step on several contexts",
    "initialize(force_reinit=True) while a store updates": "the next step goes on from the new values; there from the old ones",
    "NAG with weight decay": "the momentum has the decay of the old weight, as the formula says; there that of the new one",
    "AdaGrad, and lazy updates of row_sparse weights with empty rows": "they work; there they are an error",
    "BatchNorm": "its running statistics move in the training forward, once; there in every backward",
    "forward hooks of children of a hybridized block": "they run once, while tracing, with symbols; here with arrays at "
        "every call, which is what whoever reads features there wants",
    "Dense(activation='nope'), Activation('nope'), Dropout(2), Sequential().add(None), Conv2D(-1, 3)": "they fail at the "
        "first use; here when they are made, where the mistake is",
    "a hybridized layer of the library called with fewer or more optional inputs than before": "it refuses them; here "
        "there is a plan for each, as nothing of the user's was traced",
    "outputs in hooks of operators without output names": "they are called NODE_output, as in executors; there NODE_0",
    "dropout._rate = 'abc'": "a text or number that does not fit an option of a layer is refused when it is set; there the "
                             "layer fails when it runs",
    "a monitor and Pooling": "there is no output NODE_workspace, which only one of its kernels there needs",
    "an exception in a CustomOp": "it keeps its class, and is an MXNetError, too",
    "exe.backward() without head gradients": "ones, for outputs that are no losses too; there it is an error",
    "sym.bind(args_grad=...) with another type or size": "refused at once; there it fails late or leaves garbage",
    "batch_take with int32 indices and a gradient": "has a gradient here; there binding it is refused",
    "infer_shape_partial": "knows at least as much as there, often more: where(condition, x, y) without the condition's "
                           "shape, squeeze, Flatten, tile, norm, argmax, take, one_hot; unknown sizes never raise errors",
    "exe.reshape without shapes": "says which shapes are missing instead of that they changed",
    "autograd.get_symbol through hybridized blocks": "every block appears as its single nodes, whatever its inline_limit: "
                                                     "the symbol can be run, which a node _CachedOp cannot",
    "two variables of one name in simple_bind": "work as in bind; there simple_bind fails",
}

# Differences of random programs: (what the program contains, how the difference looks, reason), as regular expressions.  The
# difference is followed by @ and its statement.
VALUES = r"^\[|^: \d+ and \d+ items"
PROGRAMS = [
    (r"Trainer\(", r"^raises TypeError there only: 'NoneType' object is not iterable", "a trainer without parameters does nothing"),
    (r"backward\(\[l, l\]\)", VALUES, "one array given twice counts twice; there once"),
    (r"MaxPool(.|\n)*train_mode=False", VALUES, "the gradient of max pooling in prediction mode is wrong there: see OPERATORS"),
    (r"float\(a|bool\(a", r"^raises TypeError there only: float\(\)", "an array of one element is a number"),
    (r"autograd.grad\(", r"^raises MXNetError there only: .*\n.*\n.*non-differentiable", "more operators have second derivatives"),
    (r"'bogus': 1|'nope'", r"AttributeError (there only: |\()'Trainer' object has no attribute",
     "a trainer that could not be made leaves the parameters alone"),
    (r"gluon.Parameter\('(extra|other)'", r"extra|other|^raises RuntimeError there only|" + VALUES,
     "a parameter made elsewhere that becomes an attribute of a block is among its parameters; there it is only saved with them"),
    (r"BatchNorm|InstanceNorm|GroupNorm", r"^raises ShapeError .*(channels, gamma expects|axis 1 does not exist)",
     "there a wrong number of channels reads beyond the parameters"),
    (r"_children.clear\(\)|\.w = ", r"^raises AssertionError there only: Unknown input|there AssertionError \(Unknown input|head 0 was not recorded|"
     r"^raises MXNetError there only: (.|\n)*not in a computational graph|"
     r"^raises TypeError (here only: |\()Net.*unexpected keyword argument 'w'",
     "what was compiled before a child was removed is compiled again; there it still has the child, or fails"),
    (r"\.a = nn.Dense\(3\)", r"^raises TypeError there only: Changing attribute type",
     "a block may be replaced by one of another class; by something that is no block not"),
    (r"prefix='(fc_)?'", r"there AssertionError \(Cannot update self", "of two mistakes another one is reported"),
    (r"SymbolBlock.imports", r" and None( \(after an error\))?\n@|shape=None", "shapes of parameters from a file are known before the first forward"),
    (r"params=net\d+.collect_params\(\)", r"AssertionError there only: restore_prefix",
     "files of a single layer load into a layer whose parameters belong to another one, too"),
    (r"load_parameters", r"there AssertionError \(restore_prefix", "of two mistakes another one is reported"),
    (r"norm\(|L2Normalization", r" and \(.*nan", "the gradient of the norm of zeros is 0; there NaN"),
    (r"\.w = (net|block)\d+\.params\.get\('w'|\.w = gluon.Parameter", r"^raises (.*there TypeError \(.*unexpected keyword argument 'w'|TypeError there only: .*unexpected keyword argument 'w'|AssertionError there only: "
     r"Overriding Parameter|RuntimeError there only: Parameter '\w*w' has not)",
     "a parameter that a layer's forward does not read is no mistake; the same one may be set twice"),
    (r"InstanceNorm|GroupNorm", r"instance_norm-inl.h|group_norm.cc", "InstanceNorm and GroupNorm take matrices, too"),
    (r"Conv\dDTranspose", r"Conv\dDTranspose\(", "repr of transposed convolutions: see AREAS"),
    (r"load", r"there AttributeError \('list' object has no attribute 'keys'\)", "a file without names is an error that says so"),
    (r".", r"there ValueError \(.*shape cannot be inferred", "an error of the first forward keeps its class; there it is a ValueError if "
     "shapes were to be inferred"),
    (r".", r"^raises DeferredInitializationError (here|there) only(.|\n)*\(after an error\)\n@|"
     r"(: \d+ and 0|there DeferredInitializationError(.|\n)*|\(None ->.*) \(after an error\)\n@",
     "which parameters are initialised after a forward that failed"),
    (r"make_loss", VALUES, "make_loss gets no gradient through a comparison; there a gradient of 0, which it replaces by 1"),
    (r"reshape\(\(5, 7\)\)", r"^raises ShapeError here only: .*Reshape: .* do not fit", "there a hybridized reshape reads beyond the array"),
    (r"nn.Dense", r"^raises ValueError there only: Deferred initialization failed because shape cannot be inferred. '",
     "children that forward does not use are no mistake"),
    (r"F, x\):\n        return x\n(.|\n)*hybridize", r"^raises MXNetError there only: .*not in a computational graph|" + VALUES,
     "a hybridized block that returns its input hands on gradients"),
    (r"load_states\('missing'\)", r"there DeferredInitializationError", "of two mistakes another one is reported"),
    (r".", r"^raises MXNetError there only(.|\n)*\(after an error\)\n@", "there an error may be raised once more by a later statement"),
    (r"'add'(.|\n)*(adadelta|dcasgd|adamax|nadam|ftml)", VALUES, "optimizers that are Python there scale the gradient itself"),
    (r"adadelta|dcasgd|adamax|nadam|ftml", r"^\[(.|\n)*@(.|\n)*grad\(\)", "optimizers that are Python there scale the gradient itself"),
    (r"\[\(0\)(.|\n)*(hybridize|imports)", VALUES + "|ShapeError here only|MXNetError there only",
     "x[0] in hybrid_forward is the first row, as without hybridize; there the first output"),
    (r"x \+= 1|x\[0\] = 1", r"^raises MXNetError there only(.|\n)*inside a record section",
     "an array that no gradient reads may be written while recording"),
    (r"_children.clear\(\)(.|\n)*", VALUES, "what was compiled before a child was removed is compiled again; there it still has the child, or fails"),
    (r"register_forward_hook", r"^: \d+ and 0 items \(after an error\)\n@", "a forward whose shapes cannot be inferred fails after its first children"),
    (r".", r", there NameError|^raises NameError \(.*there RuntimeError|, there IndexError", "of two mistakes another one is reported"),
    (r".", r"^raises \w*Error here only(.|\n)*@ (.|\n)*\.export\(", "there the error of a kernel comes when its result is read"),
    (r"slice_axis", r"^raises MXNetError there only: (.|\n)*Invalid end for end=", "slice_axis ends where the axis ends, as slices of Python do"),
    (r"collect_params\('", r"^raises _SameName here only", "two parameters of one name are an error, also if they were not selected"),
    (r"adamax", r"nan", "adamax leaves a weight alone whose gradient was always 0; there 0 / 0"),
]
# Differences that vanish when a text of the program is replaced: (regular expression, replacement, reason).
REPLACED = [
    (r"nn.BatchNorm\(", "nn.BatchNorm(use_global_stats=True, ", "running statistics move in the training forward: see BatchNorm above"),
    (r"mx.init.(One|Zero)\(\)|mx.init.Constant\([\d.]+\)|'ones'|'zeros'", "Pattern(5)",
     "rounding errors: features that are all equal are normalised, or a step has the size of a gradient's sign"),
    (r"nn.PReLU\(\)", "nn.LeakyReLU(0.25)", "the gradient of PReLU's alpha is wrong there if hybridized and its input was overwritten"),
    (r"'(adamax|nadam|ftml|signum|adam|rmsprop|lamb)'(, \{[^}]*\})?(?=(.|\n)*$)", "'sgd'",
     "rounding errors: the step has the size of a gradient's sign, and some gradients are 0 but for rounding"),
]
