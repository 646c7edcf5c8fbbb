"""Random Gluon programs as lists of statements: networks, parameters, recording, trainers, files, hooks, views, mistakes.

Every program follows from its number.  A statement stands for itself, so that a program can be shortened by leaving some out.
"""
import random

from program_nets import INITIALIZERS, function, network

OPTIMIZERS = ["'sgd', {'learning_rate': 0.1}", "'sgd', {'learning_rate': 0.1, 'momentum': 0.9, 'wd': 0.01}", "'adam', {'learning_rate': 0.01}",
              "'nag', {'momentum': 0.5, 'learning_rate': 0.05}", "'rmsprop'", "'adagrad', {'learning_rate': 0.1}", "'ftrl'", "'adadelta'",
              "'signum', {'learning_rate': 0.01}", "mx.optimizer.SGD(learning_rate=0.2, clip_gradient=0.1)", "'adamax'", "'nadam'", "'lamb'",
              "'sgd', {'learning_rate': 1.0, 'lr_scheduler': mx.lr_scheduler.FactorScheduler(step=2, factor=0.5)}",
              "'sgd', {'bogus': 1}", "'nope'", "'ftml'", "'lars', {'learning_rate': 0.1}", "'dcasgd'"]
FLAGS = ["", "static_alloc=True", "static_alloc=True, static_shape=True", "False", "inline_limit=0", "active=True", "forward_bulk_size=4"]


class Program:
    """What the statements so far have made."""

    def __init__(self, number):
        self.dice = random.Random(number)
        self.batch_norm = self.dice.random() < 0.2  # then every training forward has its backward: see intended.py
        self.statements, self.nets, self.trainers, self.files, self.count = [], [], [], [], 0
        self.make_net(), self.prepare()
        for _ in range(self.dice.randint(4, 14)):
            self.dice.choice(self.ACTIONS)(self)

    def say(self, *lines):
        self.statements.append("\n".join(lines))

    def new(self, kind):
        self.count += 1
        return f"{kind}{self.count}"

    def net(self):
        return self.dice.choice(self.nets)

    def input_of(self, net):
        shape = list(net["shape"])
        if self.dice.random() < 0.15:
            shape[0] = self.dice.choice([1, 3, 5])
        if self.dice.random() < 0.04:
            shape[self.dice.randrange(len(shape))] += 1
        if self.dice.random() < 0.02:
            shape = shape[:-1]
        return f"data({self.dice.randrange(9)}, {', '.join(map(str, shape))})"

    # ---- networks and parameters

    def make_net(self):
        text, made, shape, hybrid = network(self.dice, len(self.nets), self.batch_norm)
        if text:
            self.say(text)
        name = self.new("net")
        self.say(f"{name} = {made}")
        self.nets.append({"name": name, "shape": shape, "hybrid": hybrid, "made": made, "hybridized": False})

    def another(self):
        """The same network again, with parameters of its own or shared ones."""
        old, name = self.net(), self.new("net")
        shared = self.dice.random() < 0.3 and "add(" not in old["made"]
        made = old["made"][:-1] + (", " if old["made"][-2] != "(" else "") + f"params={old['name']}.collect_params())" if shared else old["made"]
        self.say(f"{name} = {made}")
        self.nets.append(dict(old, name=name, hybridized=False))
        if self.dice.random() < 0.7:
            self.say(f"{name}.initialize(Pattern(3))")

    def prepare(self):
        net, dice = self.nets[-1], self.dice
        if dice.random() < 0.95:
            self.say(f"{net['name']}.initialize({dice.choice(['Pattern()', 'Pattern(4)', 'init=Pattern(6)', 'mx.init.Constant(0.1)'])})")
        if dice.random() < 0.8:
            self.say(f"show({net['name']}({self.input_of(net)}))")
        if dice.random() < 0.7:
            self.say(f"fill({net['name']}, {dice.randrange(5)})")

    def initialize(self):
        net = self.net()["name"]
        init = self.dice.choice(INITIALIZERS[1:])
        self.say(f"{net}.initialize({init}, force_reinit={self.dice.choice([True, True, False])})", f"show({net}.collect_params())")

    def names(self):
        net = self.net()["name"]
        self.say("show(" + self.dice.choice([
            "{n}.name, {n}.prefix", "list({n}.collect_params().keys())", "repr({n})", "[p.shape for p in {n}.collect_params().values()]",
            "list({n}.collect_params('.*weight').keys())", "list({n}.params.keys())", "repr({n}.collect_params())", "len({n}._children)",
            "sorted({n}._collect_params_with_prefix())", "repr(list({n}.collect_params().values())[:1])",
            "[p.grad_req for p in {n}.collect_params().values()]", "list({n}._children.keys())"]).format(n=net) + ")")

    def set_parameters(self):
        net = self.net()["name"]
        self.say(self.dice.choice([
            "{n}.collect_params('.*weight').setattr('grad_req', 'add')", "{n}.collect_params().setattr('grad_req', 'null')",
            "{n}.collect_params('.*bias').setattr('grad_req', 'null')", "{n}.collect_params().setattr('grad_req', 'write')",
            "{n}.collect_params().setattr('lr_mult', 0.5)", "{n}.collect_params('.*bias').setattr('wd_mult', 0)",
            "{n}.collect_params().zero_grad()", "{n}.cast('float64')", "{n}.cast('float32')", "fill({n}, 7)",
            "for p in {n}.collect_params().values(): p.lr_mult = 2.0", "for p in {n}.collect_params().values(): p.data()[:] = 0.3",
            "for p in {n}.collect_params().values(): p.set_data(p.data() * 0.5)", "list({n}.collect_params().values())[0].set_data(data(1, 3, 7))",
            "list({n}.collect_params().values())[0].grad_req = 'bogus'", "{n}.apply(lambda b: show(b.name, len(b._children)))",
            "list({n}.collect_params().values())[-1].data()[:] = 1", "{n}.collect_params().reset_ctx(mx.cpu(0))",
            "list({n}.collect_params().values())[0].shape = (2, 9)", "show([p.list_ctx() for p in {n}.collect_params().values()])"]).format(n=net))

    def read_parameters(self):
        net = self.net()["name"]
        self.say("show(" + self.dice.choice([
            "{n}.collect_params()", "[p.data() for p in {n}.collect_params().values()]", "[p.grad() for p in {n}.collect_params().values()]",
            "[p.list_grad() for p in {n}.collect_params().values()]", "{n}.collect_params()['bogus']", "{n}.bogus",
            "[p.list_data()[0] for p in {n}.collect_params('.*(weight|w)').values()]", "[p.var().name for p in {n}.collect_params().values()]",
            "[p._grad is None for p in {n}.collect_params().values()]"]).format(n=net) + ")")

    def hybridize(self):
        net = self.net()
        flags = self.dice.choice(FLAGS)
        net["hybridized"] = flags != "False"
        self.say(f"{net['name']}.hybridize({flags})", f"show({net['name']}({self.input_of(net)}))")

    def children(self):
        net = self.net()["name"]
        self.say(self.dice.choice([
            "{n}.register_child(nn.Dense(2, prefix='late_'))", "{n}.a = nn.Dense(3)", "{n}.a = 5", "{n}.extra = nn.Dense(2)", "{n}.add(nn.Dense(2))",
            "show(repr({n}[0]))", "show(len({n}))", "{n}[0].weight.data()[:] = 0.1", "show([repr(c) for c in {n}])", "show(repr({n}[0:1]))",
            "{n}._children.clear()", "{n}.a.weight.set_data(data(5, *{n}.a.weight.shape))", "{n}.w = {n}.params.get('w', shape=(1,))",
            "show({n}.w.data())", "{n}.extra = gluon.Parameter('extra', shape=(2,))", "{n}.note = 'text'\nshow({n}.note)",
            "{n}.w = gluon.Parameter('other', shape=(1,))"]).format(n=net))

    def hooks(self):
        net = self.net()
        if net["hybridized"]:
            return
        handle = "handle"
        hook = (self.dice.choice([
            f"{handle} = {net['name']}.register_forward_hook(lambda b, i, o: show(b.name, len(i), o))",
            f"{handle} = {net['name']}.register_forward_pre_hook(lambda b, i: show(b.name, i[0].shape))",
            f"{handle} = list({net['name']}._children.values())[0].register_forward_hook(lambda b, i, o: show('child', b.name, o))"]))
        self.say(hook, f"try: show({net['name']}({self.input_of(net)}))", f"finally: {handle}.detach()", f"show({net['name']}({self.input_of(net)}))")

    # ---- running and training

    def forward(self):
        net = self.net()
        scope = self.dice.choice(["", "with autograd.pause(): ", "with autograd.predict_mode(): "] +
                                 ["with autograd.train_mode(): "] * (not self.batch_norm))
        self.say(f"{scope}show({net['name']}({self.input_of(net)}))")

    def record(self):
        net, dice = self.net(), self.dice
        loss = dice.choice(["total(y)", "total(y)", "(first(y) * first(y)).sum()", "first(y).mean()", "first(y)", "L(first(y), first(y) * 0.5)",
                            "gluon.loss.L1Loss()(first(y), first(y).detach() * 0)", function(dice, "first(y)", 1, 0.2)])
        if "L(" in loss and "L =" not in "".join(self.statements):
            self.say("L = gluon.loss.L2Loss()")
        if "def first" not in "".join(self.statements):
            self.statements.insert(0, "def first(y): return first(y[0]) if isinstance(y, (list, tuple)) else y\n"
                                   "def total(y): return sum(total(v) for v in y) if isinstance(y, (list, tuple)) else (y * y * data(9, *y.shape)).sum()")
        train = "" if self.batch_norm else dice.choice(["", "", "train_mode=False", "True"])
        attach = dice.random() < 0.5
        lines = [f"x = {self.input_of(net)}"] + [f"x.attach_grad({dice.choice(['', '', repr('add')])})"] * attach
        lines += [f"with autograd.record({train}):", f"    y = {net['name']}(x)", f"    l = {loss}"]
        if dice.random() < 0.1:
            lines.append(dice.choice(["    show(autograd.is_recording(), autograd.is_training())", "    x[0] = 1", "    x += 1", "    first(y)[:] = 0",
                                      "    with autograd.pause(): show(autograd.is_recording(), first(y) * 2)", "    l = l * 2"]))
        again = [] if self.batch_norm else ["l.backward(retain_graph=True)\nl.backward()", "l.backward()\nl.backward()", "autograd.backward([l, l * 2])"]
        lines.append(dice.choice(["l.backward()"] * 8 + again + ["l.backward(nd.ones_like(l) * 2)", "autograd.backward([l])"]))
        lines.append("show(y, l)")
        if attach:
            lines.append("show(x.grad)")
        if dice.random() < 0.7:
            lines.append(f"show({{p.name: p.grad() for p in {net['name']}.collect_params().values() if p.grad_req != 'null'}})")
        self.say(*lines)

    def make_trainer(self):
        net, name = self.net(), self.new("trainer")
        chosen = self.dice.choice([f"{net['name']}.collect_params()"] * 6 + [f"list({net['name']}.collect_params().values())", f"{net['name']}.collect_params('.*weight')", net["name"]])
        few = "" if self.dice.random() < 0.05 else f"if list({net['name']}.collect_params('.*weight')): "  # see intended.py
        self.say(f"{few}{name} = gluon.Trainer({chosen}, {self.dice.choice(OPTIMIZERS)})")
        self.trainers.append((name, net))
        self.train()

    def train(self):
        if not self.trainers:
            return self.make_trainer()
        name, net = self.dice.choice(self.trainers)
        step = self.dice.choice([f"{name}.step(2)"] * 5 + [f"{name}.step(4, ignore_stale_grad=True)", f"{name}.allreduce_grads()\n    {name}.update(2)"])
        lines = [f"for i in range({self.dice.randint(1, 3)}):", "    with autograd.record():", f"        y = {net['name']}({self.input_of(net)})",
                 "        l = sum((v * data(9, *v.shape)).sum() + (v * v).mean() for v in (y if isinstance(y, (list, tuple)) else [y]))", "    l.backward()", f"    {step}"]
        self.say(*lines, f"show(l, {net['name']}.collect_params())")

    def use_trainer(self):
        if not self.trainers:
            return
        name = self.dice.choice(self.trainers)[0]
        self.say(self.dice.choice([
            "show({t}.learning_rate)", "{t}.set_learning_rate(0.01)\nshow({t}.learning_rate)", "{t}.save_states('t.states')\n{t}.load_states('t.states')",
            "{t}.step(1)", "show({t}.optimizer.num_update)", "{t}.load_states('missing')", "show(type({t}.optimizer).__name__, {t}.optimizer.wd)",
            "{t}.update(1)", "{t}.step(0)", "{t}.step('a')", "show({t}._scale)"]).format(t=name))

    # ---- files

    def save(self):
        net, name = self.net(), self.new("file")
        kind = self.dice.choice(["save_parameters", "save_parameters", "collect_params().save", "export"])
        if kind == "export" and not net["hybrid"]:
            kind = "save_parameters"
        self.files.append((kind, name, net))
        if kind == "export":
            net["hybridized"] = True
            self.say(f"{net['name']}.hybridize()", f"{net['name']}({self.input_of(net)})", f"{net['name']}.export('{name}')")
        elif "collect" in kind:
            self.say(f"{net['name']}.{kind}('{name}')", f"show(nd.load('{name}'))")
        else:
            self.say(f"{net['name']}.save_parameters('{name}'{self.dice.choice(['', '', ', deduplicate=True'])})", f"show(nd.load('{name}'))")

    def load(self):
        if not self.files:
            return self.save()
        kind, name, net = self.dice.choice(self.files)
        target = net if self.dice.random() < 0.6 else self.net()
        extra = self.dice.choice(["", "", ", allow_missing=True", ", ignore_extra=True", ", allow_missing=True, ignore_extra=True", ", cast_dtype=True", ", ctx=mx.cpu()"])
        if kind == "export":
            block = self.new("block")
            self.say(f"{block} = gluon.SymbolBlock.imports('{name}-symbol.json', {self.dice.choice([['data'], ['data'], 'data', ['bogus']])!r}, '{name}-0000.params')",
                     f"show(list({block}.collect_params().keys()), {block}({self.input_of(net)}))")
            self.nets.append(dict(net, name=block, made="None()", hybridized=True))
        elif "collect" in kind:
            self.say(f"{target['name']}.collect_params().load('{name}'{extra.replace(', cast_dtype=True', '')})", f"show({target['name']}.collect_params())")
        else:
            self.say(f"{target['name']}.load_parameters('{name}'{extra})", f"show({target['name']}({self.input_of(target)}))")

    # ---- arrays

    def arrays(self):
        dice = self.dice
        self.say("a = data(3, 4, 6)", dice.choice([
            "b = a.reshape((6, 4))\nb[:] = 1\nshow(a)", "b = a[1:3]\nb[:] = 0\nshow(a, b)", "b = a[1]\nb += 2\nshow(a)", "a[0, 1:3] = 7\nshow(a)", "b = a.T\nb[:] = 0\nshow(a)",
            "b = a[:, 1:3]\nb[:] = 5\nshow(a, b)", "a[nd.array([0, 2])] = 3\nshow(a)", "show(a[[0, 2]])", "a *= 2\nshow(a.reshape((-3,)))",
            "b = a.reshape((2, 2, 6))[0]\nb[:] = 9\nshow(a)", "show(a.reshape((5, 5)))", "show(a[9])", "show(a[:, None, 1])", "a[1:] = data(4, 3, 6)\nshow(a)", "a[1:] = data(4, 2, 6)\nshow(a)",
            "b = a.detach()\nb[:] = 0\nshow(a)", "b = a.copy()\nb[:] = 0\nshow(a)", "b = a.astype('float32', copy=False)\nb[:] = 0\nshow(a)", "show(a + data(1, 6), a * data(1, 4, 1))",
            "show(a.shape, a.size, a.ndim, len(a), str(a.context))", "show(bool(a[0, 0] > 5), a[0, 0].asscalar())", "show(bool(a))", "show(a == a, a > 0, -a, abs(a))",
            "show(nd.dot(a, a.T), nd.dot(a, a))", "a.attach_grad()\nwith autograd.record():\n    b = a[1:3] * 2\n    c = b.reshape((-1,))\n    d = c[2:5]\nd.backward()\nshow(a.grad)",
            "a.attach_grad()\nwith autograd.record():\n    b = a * 2\n    b[0] = 5\n    c = (b * b).sum()\nc.backward()\nshow(a.grad)", "a.attach_grad()\nwith autograd.record():\n    b = a * 2\n    a[:] = 0\n    c = b * a\nc.backward()\nshow(a.grad, c)",
            "a.attach_grad()\nwith autograd.record():\n    b = a * a\n    g = autograd.grad(b, [a], create_graph=True, retain_graph=True)[0]\n    c = (g * g).sum()\nc.backward()\nshow(g, a.grad)",
            f"a.attach_grad()\nwith autograd.record():\n    b = {function(dice, 'a', 4, 0.3)}\nb.backward()\nshow(b, a.grad)", f"show({function(dice, 'a', 5, 0.4)})",
            f"show({function(dice, 'a', 5, 0.4)})", f"a.attach_grad()\nwith autograd.record():\n    b = {function(dice, 'a', 4, 0.3)}\nb.backward()\nshow(b, a.grad)",
            "a.backward()", "b = nd.zeros((2, 6))\nnd.concat(a[0:1], a[1:2], dim=0, out=b)\nshow(b)", "x = a.attach_grad()\nshow(a.grad)", "autograd.mark_variables([a], [nd.ones((4, 6))], 'add')\nwith autograd.record(): b = a * 3\nb.backward()\nshow(a.grad)"]))

    ACTIONS = [another, initialize, names, names, set_parameters, set_parameters, read_parameters, hybridize, hybridize, hybridize, children, hooks, forward, forward,
               record, record, record, record, make_trainer, train, train, use_trainer, save, load, load, arrays, arrays, make_net]


def statements_of(number):
    return Program(number).statements
