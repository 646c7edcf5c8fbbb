"""Networks of random Gluon programs, as Python text; programs.py uses them.

A network is the text of its class (or none), the expression that makes it, the shape of its input and what it may do: programs
track no shapes of results, so what does not fit is an error on both sides, and its class is compared.
"""
UNARY = ["F.relu({x})", "F.tanh({x})", "F.sigmoid({x})", "{x} * 0.5", "{x} + 1", "1 - {x}", "-{x}", "F.square({x})",
         "F.abs({x})", "F.clip({x}, -0.5, 0.5)", "F.softmax({x})", "F.log_softmax({x}, axis=-1)", "{x} ** 2",
         "F.exp({x} * 0.1)", "F.LeakyReLU({x}, slope=0.2)", "F.Activation({x}, act_type='softrelu')", "F.BlockGrad({x})",
         "{x}.tanh()", "F.L2Normalization({x})", "F.identity({x})", "F.smooth_l1({x}, scalar=1)", "F.maximum({x}, 0.1)",
         "F.where({x} > 0, {x}, {x} * 0.1)", "F.broadcast_sub({x}, F.mean({x}, axis=1, keepdims=True))",
         "F.Dropout({x}, p=0)", "F.cast(F.cast({x}, dtype='float64'), dtype='float32')", "2 / ({x} * {x} + 1)",
         "F.elemwise_add({x}, {x})", "{x}.reshape((0, -1)).reshape_like({x})", "F.reverse({x}, axis=1)", "{x} * {x}",
         "F.make_loss({x})", "F.hard_sigmoid({x})", "F.erf({x})", "F.add_n({x}, {x}, {x})", "F.softmin({x}, axis=1)",
         "F.broadcast_maximum({x}, F.zeros_like({x}))", "F.sqrt(F.abs({x}) + 1)", "F.ones_like({x}) - {x}",
         "F.broadcast_add({x}, {x}.sum(axis=-1, keepdims=True))"]
RESHAPING = ["F.concat({x}, {x} * 2, dim=1)", "F.slice_axis({x}, axis=1, begin=0, end=2)", "F.reshape({x}, shape=(0, -1, 1))",
             "F.flatten({x})", "F.transpose({x})", "F.sum({x}, axis=1, keepdims=True)", "F.expand_dims({x}, axis=1)",
             "F.swapaxes({x}, 0, 1)", "F.repeat({x}, repeats=2, axis=1)", "F.tile({x}, reps=(1, 2))", "{x}.max(axis=1)",
             "F.stack({x}, {x}, axis=1)", "F.split({x}, num_outputs=2, axis=1)[0]", "{x}.mean()", "F.squeeze({x})",
             "{x}.reshape((-1, 0), reverse=True)", "F.pick({x}, F.zeros_like({x}).max(axis=1), axis=1)", "{x}[(0)]", "{x}[(0):1]",
             "{x}.slice_axis(axis=0, begin=0, end=1)", "F.norm({x}, axis=1, keepdims=True)", "F.topk({x}, k=2, ret_typ='value')",
             "F.sort({x}, axis=1)", "{x}.reshape((5, 7))", "F.dot({x}, F.transpose({x}))"]
INITIALIZERS = ["None", "mx.init.One()", "mx.init.Constant(0.25)", "'zeros'", "'ones'", "Pattern(2)", "mx.init.Zero()"]
FLAT = ["nn.Dense({n}, {dense})", "nn.Dense({n}, {dense})", "nn.Dense({n}, {dense})", "nn.LayerNorm({norm})", "nn.Activation('{act}')",
        "nn.LeakyReLU(0.1)", "nn.PReLU()", "nn.ELU(0.5)", "nn.GELU()", "nn.Swish()", "nn.Flatten()", "nn.Dropout(0.0)",
        "nn.HybridLambda('{act}')", "nn.HybridLambda(lambda F, x: {body})", "nn.HybridLambda(lambda F, x: x * 2)"]
SPATIAL = ["nn.Conv2D({n}, {k}, {conv})", "nn.Conv2D({n}, {k}, {conv})", "nn.MaxPool2D(2, 2)", "nn.AvgPool2D(2, 1)", "nn.InstanceNorm()",
           "nn.GroupNorm(1)", "nn.Conv2DTranspose({n}, 3)", "nn.Activation('{act}')", "nn.PReLU()", "nn.HybridLambda(lambda F, x: {body})",
           "nn.GlobalAvgPool2D()", "nn.Dense({n}, {dense})", "nn.Flatten()", "nn.ReflectionPad2D(1)"]
SERIES = ["rnn.LSTM({n}, layout='NTC')", "rnn.GRU({n}, layout='NTC')", "rnn.RNN({n}, activation='tanh', layout='NTC')",
          "nn.Dense({n}, flatten=False)", "nn.LayerNorm({norm})", "nn.Conv1D({n}, 2)", "nn.MaxPool1D(2)",
          "nn.HybridLambda(lambda F, x: {body})", "nn.Dense({n}, {dense})", "nn.Activation('{act}')"]
KINDS = {(4, 6): FLAT, (2, 3, 6, 6): SPATIAL, (2, 5, 4): SERIES, (6, 2): FLAT}


def function(dice, x="x", steps=3, reshaping=0.3):
    """An expression of F and x."""
    for _ in range(dice.randint(1, steps)):
        x = dice.choice(RESHAPING if dice.random() < reshaping else UNARY).format(x=x if x.isidentifier() else f"({x})")
        if len(x) > 150:
            break
    return x


def options(dice, **possible):
    """Some of the options as text: name=[texts]."""
    return ", ".join(f"{name}={dice.choice(texts)}" for name, texts in possible.items() if dice.random() < 0.35)


def layer(dice, shape, batch_norm):
    if batch_norm and dice.random() < 0.3:
        return f"nn.BatchNorm({options(dice, momentum=['0.5'], center=['False'], scale=['True'], epsilon=['1e-3'])})"
    act = dice.choice(["relu", "tanh", "sigmoid", "softrelu", "softsign"])
    dense = options(dice, activation=[repr(act)], use_bias=["False"], flatten=["False"], in_units=["6", "4", "3"],
                    weight_initializer=INITIALIZERS, bias_initializer=["'ones'", "mx.init.Constant(0.5)"], prefix=["'fc_'", "''"])
    conv = options(dice, activation=[repr(act)], use_bias=["False"], padding=["1"], strides=["2"], in_channels=["3", "2"],
                   groups=["2", "1"], weight_initializer=INITIALIZERS)
    norm = options(dice, axis=["-1", "1"], center=["False"], scale=["False"], epsilon=["1e-3"])
    return dice.choice(KINDS[shape]).format(n=dice.choice([2, 3, 4]), k=dice.choice([1, 2, 3]), act=act, dense=dense, conv=conv, norm=norm,
                                            body=function(dice, steps=2, reshaping=0.1))


def sequence(dice, shape, batch_norm, hybrid=True, depth=0):
    """The expression of a container of layers."""
    made = [layer(dice, shape, batch_norm) for _ in range(dice.randint(1, 3))]
    if depth < 1 and dice.random() < 0.25:
        made.insert(dice.randrange(len(made) + 1), sequence(dice, shape, batch_norm, hybrid, depth + 1))
    if not hybrid and dice.random() < 0.4:
        made.append(f"nn.Lambda(lambda x: {function(dice, steps=2).replace('F.', 'nd.')})")
    return f"add({'nn.HybridSequential' if hybrid else 'nn.Sequential'}({options(dice, prefix=[repr('net_')])}), {', '.join(made)})"


def parameter(dice, name):
    extra = options(dice, init=INITIALIZERS, grad_req=["'add'", "'null'", "'write'"], lr_mult=["0.5"], wd_mult=["0"],
                    allow_deferred_init=["True"])
    shape = dice.choice(["(1,)", "(1, 1)", "(1,)", "(0,)", "(3,)"])
    return f"self.{name} = self.params.get('{name}', shape={shape}{', ' + extra if extra else ''})"


def constructor(dice, shape, batch_norm, children, parameters):
    scope = dice.random() < 0.8
    lines = ["    def __init__(self, **options):", "        super().__init__(**options)"] + ["        with self.name_scope():"] * scope
    inner = [f"self.{c} = {layer(dice, shape, batch_norm)}" for c in children]
    inner += [parameter(dice, p) for p in parameters]
    if dice.random() < 0.15:
        inner.append("self.k = self.params.get_constant('k', np.array([[2.0]]))")
        parameters.append("k")
    return lines + [("            " if scope else "        ") + line for line in inner or ["pass"]]


def hybrid_class(dice, name, shape, batch_norm):
    """A HybridBlock of the user's with children, parameters and hybrid_forward."""
    children = dice.choice([["a"], ["a", "b"], ["a", "b", "c"], []])
    parameters = dice.choice([[], ["w"], ["w", "v"], []])
    lines = [f"class {name}(gluon.HybridBlock):"] + constructor(dice, shape, batch_norm, children, parameters)
    lines.append(f"    def hybrid_forward(self, F, x{''.join(', ' + p for p in parameters)}):")
    for child in children:
        lines.append(f"        x = {dice.choice(['self.{c}(x)', 'self.{c}(x)', 'self.{c}({f})']).format(c=child, f=function(dice, steps=1, reshaping=0.1))}")
    for p in parameters:
        lines.append(f"        x = F.{dice.choice(['broadcast_add', 'broadcast_mul', 'broadcast_sub'])}(x, {p})")
    result = function(dice, steps=2, reshaping=0.15)
    lines.append("        return " + dice.choice([result] * 5 + [f"[x, {result}]", f"(x, [{result}, x * 2])", "x"]))
    if dice.random() < 0.15:
        lines += ["    def forward(self, x, *rest):", f"        return super().forward(x{dice.choice([' * 2', '', ' + 1'])}, *rest)"]
    return "\n".join(lines)


def plain_class(dice, name, shape, batch_norm):
    """A Block of the user's with forward in Python."""
    children = dice.choice([["a"], ["a", "b"], []])
    parameters = dice.choice([[], ["w"], []])
    lines = [f"class {name}(gluon.Block):"] + constructor(dice, shape, batch_norm, children, parameters)
    lines.append("    def forward(self, x):")
    lines += [f"        x = self.{child}(x)" for child in children]
    lines += [f"        x = nd.{dice.choice(['broadcast_add', 'broadcast_mul'])}(x, self.{p}.data())" for p in parameters]
    if dice.random() < 0.3:
        lines.append(dice.choice(["        x = x * 2 if x.shape[0] > 3 else x", "        for i in range(2): x = x + i",
                                  "        if x.max().asscalar() > 0.3: x = -x", "        x[:] = x * 2", "        x += 1",
                                  "        with autograd.pause(): m = x.mean()\n        x = nd.broadcast_sub(x, m)",
                                  "        show(autograd.is_recording(), autograd.is_training())"]))
    lines.append(f"        return {function(dice, steps=2, reshaping=0.15).replace('F.', 'nd.')}")
    return "\n".join(lines)


def subclass(dice, name, shape, batch_norm):
    """A layer or container of the library with an override."""
    base, make = dice.choice([("nn.Dense", "(3)"), ("nn.HybridSequential", "()"), ("nn.Sequential", "()"), ("nn.Dense", "(4, flatten=False)")])
    if base == "nn.Dense":
        body = dice.choice(["    def hybrid_forward(self, F, x, weight, bias=None):\n        return super().hybrid_forward(F, x * 2, weight, bias) + 1",
                            "    def forward(self, x):\n        return super().forward(x) * 2",
                            "    def __call__(self, x):\n        return super().__call__(x) - 1",
                            "    def hybrid_forward(self, F, x, weight, bias):\n        return F.broadcast_add(F.dot(x, F.transpose(weight)), bias)"])
    elif base == "nn.HybridSequential":
        body = dice.choice(["    def hybrid_forward(self, F, x):\n        for c in self._children.values():\n            x = F.tanh(c(x))\n        return x",
                            "    def forward(self, x):\n        return super().forward(x) + 1"])
    else:
        body = "    def forward(self, x):\n        for c in reversed(list(self._children.values())): x = c(x)\n        return x"
    made = f"{name}{make}" if base == "nn.Dense" else f"add({name}{make}, {layer(dice, shape, batch_norm)}, {layer(dice, shape, batch_norm)})"
    return f"class {name}({base}):\n{body}", made


def network(dice, number, batch_norm):
    """(text of a class or None, expression, shape of the input, whether it is a HybridBlock)."""
    shape, name = dice.choice(list(KINDS)), f"Net{number}"
    kind = dice.random()
    if kind < 0.35:
        return None, sequence(dice, shape, batch_norm), shape, True
    if kind < 0.45:
        return None, sequence(dice, shape, batch_norm, hybrid=False), shape, False
    if kind < 0.75:
        return hybrid_class(dice, name, shape, batch_norm), f"{name}({options(dice, prefix=[repr('user_')])})", shape, True
    if kind < 0.87:
        return plain_class(dice, name, shape, batch_norm), f"{name}()", shape, False
    text, made = subclass(dice, name, shape, batch_norm)
    return text, made, shape, "nn.Sequential" not in text
