/* A Child-sum Tree-LSTM over random trees: the network is a recursion in C, and the tape records it as it runs.
 *
 * Leaves carry random bits; the task is to predict whether at least half of them are ones.  Every tree has its own shape,
 * so every example has its own network.  For a node with children k (Tai, Socher, Manning 2015):
 *
 *     h~ = sum of h_k                       i, o, u = gates of W x + U h~ + b
 *     f_k = sigmoid(W_f x + U_f h_k + b_f)  c = i * u + sum of f_k * c_k,   h = o * tanh(c)
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>

#include "terminal.h"

enum { HIDDEN = 16, CHILDREN = 3, TREES = 120 };

/* ---- random trees ------------------------------------------------------------------------------------------------ */

typedef struct tree {
    int n;     /* children; 0: a leaf */
    float bit; /* of a leaf */
    struct tree *child[CHILDREN];
} tree;

static unsigned state = 1;
static unsigned draw(unsigned n) { return state = state * 1664525u + 1013904223u, (state >> 8) % n; }

static tree *grow(int depth)
{
    tree *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->n = depth ? 1 + (int)draw(CHILDREN) : 0;
    t->bit = (float)draw(2);
    for (int i = 0; i < t->n; i++)
        t->child[i] = grow((int)draw((unsigned)depth));
    return t;
}

static void fell(tree *t)
{
    for (int i = 0; t && i < t->n; i++)
        fell(t->child[i]);
    free(t);
}

static void count(const tree *t, int *leaves, int *ones)
{
    *leaves += !t->n;
    *ones += !t->n && t->bit > 0;
    for (int i = 0; i < t->n; i++)
        count(t->child[i], leaves, ones);
}

static float majority(const tree *t)
{
    int leaves = 0, ones = 0;
    count(t, &leaves, &ones);
    return 2 * ones >= leaves;
}

/* ---- the network -------------------------------------------------------------------------------------------------- */

typedef struct cell {
    mx_block *input, *hidden;               /* x -> i o u, h~ -> i o u: (1, 3 * HIDDEN) */
    mx_block *forget_input, *forget_hidden; /* x -> f, h_k -> f: (1, HIDDEN) */
    mx_block *output;                       /* h of the root -> (1, 1) */
} cell;

typedef struct node_state {
    mx_array *h, *c; /* (1, HIDDEN) */
} node_state;

static mx_array *gate(mx_array *gates, int i)
{
    mx_array *part = mx_slice_axis(gates, .axis = 1, .begin = i * HIDDEN, .end = (i + 1) * HIDDEN);
    return i < 2 ? mx_sigmoid(part) : mx_tanh(part);
}

static node_state run(const cell *net, const tree *t)
{
    mx_array *x = mx_array_from(MX_DIMS(1, 2), MX_FLOAT32, (float[]){t->n ? 0 : t->bit, t->n ? 0 : 1 - t->bit});
    mx_array *h_sum = mx_zeros(.shape = MX_DIMS(1, HIDDEN)), *c_sum = mx_zeros(.shape = MX_DIMS(1, HIDDEN));
    for (int k = 0; k < t->n; k++) {
        node_state child = run(net, t->child[k]);
        mx_array *f = mx_sigmoid(mx_add(mx_call(net->forget_input, x), mx_call(net->forget_hidden, child.h)));
        h_sum = mx_add(h_sum, child.h);
        c_sum = mx_add(c_sum, mx_mul(f, child.c));
    }
    mx_array *gates = mx_add(mx_call(net->input, x), mx_call(net->hidden, h_sum));
    mx_array *c = mx_add(mx_mul(gate(gates, 0), gate(gates, 2)), c_sum);
    return (node_state){mx_mul(gate(gates, 1), mx_tanh(c)), c};
}

int main(int argc, char **argv)
{
    mx_random_seed((uint64_t)option(argc, argv, "--seed", 1));
    cell net = {mx_dense(3 * HIDDEN), mx_dense(3 * HIDDEN, .use_bias = false), mx_dense(HIDDEN),
                mx_dense(HIDDEN, .use_bias = false), mx_dense(1)};
    mx_block *all = mx_sequential(net.input, net.hidden, net.forget_input, net.forget_hidden, net.output);
    mx_initialize(all, mx_xavier(), mx_cpu(0));
    mx_block *criterion = mx_sigmoid_binary_cross_entropy_loss();
    mx_trainer *trainer = mx_trainer_with(mx_collect_params(all), mx_adam(.learning_rate = 0.01));

    tree *trees[TREES];
    for (int i = 0; i < TREES; i++)
        trees[i] = grow(4);
    const int epochs = (int)option(argc, argv, "--epochs", 12);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double total = 0;
        int right = 0;
        for (int i = 0; i < TREES; i++) {
            MX_SCOPE; /* one network per tree, freed when the scope ends */
            mx_array *answer, *loss, *label = mx_array_scalar(majority(trees[i]));
            mx_record() {
                answer = mx_call(net.output, run(&net, trees[i]).h);
                loss = mx_call(criterion, answer, label);
            }
            mx_backward(loss);
            mx_trainer_step_ignoring_stale(trainer, 1); /* a single leaf does not use the forget gate */
            total += mx_item(loss);
            right += (mx_item(answer) > 0) == (mx_item(label) > 0);
        }
        printf("epoch %2d: loss %.4f, %3.0f %% right\n", epoch, total / TREES, 100.0 * right / TREES);
    }
    for (int i = 0; i < TREES; i++)
        fell(trees[i]);
    return mx_check("tree_lstm");
}
