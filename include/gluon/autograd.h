/* Automatic differentiation: operators called inside mx_record() are put on the tape for backward.
 *
 *     mx_attach_grad(w, MX_GRAD_WRITE);
 *     mx_record() loss = mx_sum(mx_square(mx_sub(mx_dot(x, w), y)));
 *     mx_backward(loss);                       // mx_gradient(w) now holds d loss / d w
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_AUTOGRAD_H
#define GLUON_AUTOGRAD_H

#include "gluon/array.h"
#include "gluon/sparse.h"

typedef enum mx_grad_req {
    MX_GRAD_NULL = 0,  /* no gradient */
    MX_GRAD_WRITE = 1, /* backward overwrites it */
    MX_GRAD_ADD = 3,   /* backward adds to it */
} mx_grad_req;

/* ---- modes ---------------------------------------------------------------------------------------------- */
MX_API bool mx_is_recording(void);
MX_API bool mx_is_training(void);
MX_API bool mx_set_recording(bool on); /* returns the previous value */
MX_API bool mx_set_training(bool on);

typedef struct mx_mode {
    bool recording, training; /* to be restored */
    bool open;
} mx_mode;
MX_API mx_mode mx_mode_enter(int recording, int training); /* -1: leave as it is */
MX_API void mx_mode_leave(mx_mode *mode);
#define MX_MODE_(recording, training)                                                                            \
    MX_MODE_AS_(MX_CONCAT(mx_mode_at_, __LINE__), MX_CONCAT(mx_once_at_, __LINE__), recording, training)
#define MX_MODE_AS_(mode, once, recording, training)                                                             \
    for (mx_mode mode __attribute__((cleanup(mx_mode_leave))) = mx_mode_enter(recording, training), *once = &mode; \
         once; once = NULL)
#define mx_record() MX_MODE_(1, 1)          /* mx_record() statement; */
#define mx_record_predict() MX_MODE_(1, 0)  /* recording, layers in prediction mode */
#define mx_pause() MX_MODE_(0, 0)
#define mx_train_mode() MX_MODE_(-1, 1)
#define mx_predict_mode() MX_MODE_(-1, 0)

/* ---- variables ------------------------------------------------------------------------------------------ */
/* Makes x a variable: its history is dropped, its gradient is a new array of zeros. */
MX_API mx_code mx_attach_grad(mx_array *x, mx_grad_req req);
/* The same with a gradient of this storage type: row_sparse if a step touches few rows of the weight. */
MX_API mx_code mx_attach_grad_as(mx_array *x, mx_grad_req req, mx_stype stype);
MX_API mx_code mx_mark_variables(mx_arrays variables, mx_arrays gradients, const mx_grad_req *reqs);
MX_API mx_array *mx_gradient(mx_array *x); /* NULL without an error if none is attached; owned by x */
/* Whether backward has written x's gradient since it was attached, since an update used it, or since it was set. */
MX_API bool mx_gradient_fresh(mx_array *x);
MX_API mx_code mx_gradient_set_fresh(mx_array *x, bool fresh);

/* ---- backward ------------------------------------------------------------------------------------------- */
typedef struct mx_backward_options {
    mx_arrays head_grads; /* one per head, MX_NONE for ones; n == 0: ones for all */
    bool retain_graph;    /* the tape can be run again */
    bool predict_mode;    /* layers run in prediction mode */
} mx_backward_options;
/* mx_backward(loss), mx_backward(y, .head_grad = g, .retain_graph = true) */
struct mx_backward_args {
    mx_array *head_grad; /* MX_NONE or not given: ones */
    bool retain_graph;
    char positional_;
    mx_array *head;
};
#define mx_backward(...) mx_backward_one(&(struct mx_backward_args){.positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_backward_one(const struct mx_backward_args *args);
MX_API mx_code mx_backward_all(mx_arrays heads, const mx_backward_options *options);
/* Gradients of heads with respect to variables as new arrays; .grad of the variables does not change.
 * create_graph: the results can be differentiated again. */
MX_API mx_arrays mx_grad_of(mx_arrays heads, mx_arrays variables, mx_arrays head_grads, bool retain_graph,
                            bool create_graph);

/* ---- custom functions ------------------------------------------------------------------------------------ */
/* A function with a gradient of its own.  Both callbacks return MX_OK and fill their outputs with arrays of the
 * scope; `user` is passed through, `release` (may be NULL) is called with it when the tape drops the call, or at
 * once if the call fails or is not recorded. */
typedef struct mx_function {
    const char *name;
    mx_code (*forward)(void *user, int n_in, mx_array *const *in, int n_out, mx_array **out);
    mx_code (*backward)(void *user, int n_out, mx_array *const *out_grads, int n_in, mx_array **in_grads);
    void (*release)(void *user);
    int n_out;
    bool zeros_left_out; /* outputs without a gradient get NULL in out_grads; otherwise they are an error */
} mx_function;
MX_API mx_arrays mx_function_call(const mx_function *function, void *user, mx_arrays inputs);

#endif
