/* The fixed kernels of a network that is written as C: plain loops, each written out only where it is used.
 *
 * Order matters: a kernel stands behind those that it calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"

typedef struct kernel {
    const char *name;
    const char *needs; /* another kernel that it calls; NULL: none */
    const char *text;
} kernel;

static const kernel kernels[] = {
    {"advance", NULL,
     "/* Moves a position in a box on by one, in C order, and two offsets with it. */\n"
     "static void advance(int n, long *at, const long *dim, const long *a_step, long *a, const long *b_step, long *b)\n"
     "{\n"
     "    for (int i = n - 1; i >= 0; i--) {\n"
     "        *a += a_step[i];\n"
     "        *b += b_step[i];\n"
     "        if (++at[i] < dim[i])\n"
     "            return;\n"
     "        *a -= at[i] * a_step[i];\n"
     "        *b -= at[i] * b_step[i];\n"
     "        at[i] = 0;\n"
     "    }\n"
     "}\n"},
    {"move", "advance",
     "/* to[p . to_step] = from[p . from_step] for `count` positions p of a box. */\n"
     "static void move(const float *from, float *to, long count, int n, const long *dim, const long *from_step,\n"
     "                 const long *to_step)\n"
     "{\n"
     "    long at[16] = {0}, a = 0, b = 0;\n"
     "    for (long i = 0; i < count; i++) {\n"
     "        to[b] = from[a];\n"
     "        advance(n, at, dim, from_step, &a, to_step, &b);\n"
     "    }\n"
     "}\n"},
    {"copy", NULL,
     "static void copy(const float *x, float *y, long n)\n"
     "{\n"
     "    memcpy(y, x, (size_t)n * sizeof *y);\n"
     "}\n"},
    {"product", NULL,
     "/* Sum of a[i] * b[i], in eight parts so that compilers can use vectors. */\n"
     "static float product(const float *a, const float *b, long n)\n"
     "{\n"
     "    float part[8] = {0}, rest = 0;\n"
     "    const long whole = n / 8 * 8;\n"
     "    for (long i = 0; i < whole; i += 8)\n"
     "        for (int k = 0; k < 8; k++)\n"
     "            part[k] += a[i + k] * b[i + k];\n"
     "    for (long i = whole; i < n; i++)\n"
     "        rest += a[i] * b[i];\n"
     "    return ((part[0] + part[4]) + (part[1] + part[5])) + ((part[2] + part[6]) + (part[3] + part[7])) + rest;\n"
     "}\n"},
    {"dense", "product",
     "/* x (rows, k), weight (n, k), bias (n) or NULL -> y (rows, n) */\n"
     "static void dense(const float *x, const float *weight, float *y, const float *bias, long rows, long n, long k)\n"
     "{\n"
     "    for (long r = 0; r < rows; r++)\n"
     "        for (long j = 0; j < n; j++)\n"
     "            y[r * n + j] = product(x + r * k, weight + j * k, k) + (bias ? bias[j] : 0);\n"
     "}\n"},
    {"matmul", NULL,
     "/* Per batch: a (m, k) times b (k, n), or their transposes as stored; steps say where a row and a column start. */\n"
     "static void matmul(const float *a, const float *b, float *y, long batch, long m, long n, long k, int ta, int tb,\n"
     "                   float alpha)\n"
     "{\n"
     "    for (long z = 0; z < batch; z++, a += m * k, b += k * n, y += m * n)\n"
     "        for (long i = 0; i < m; i++)\n"
     "            for (long j = 0; j < n; j++) {\n"
     "                float sum = 0;\n"
     "                for (long p = 0; p < k; p++)\n"
     "                    sum += (ta ? a[p * m + i] : a[i * k + p]) * (tb ? b[j * k + p] : b[p * n + j]);\n"
     "                y[i * n + j] = alpha * sum;\n"
     "            }\n"
     "}\n"},
    {"window", NULL,
     "/* Window over one image axis: sizes in and out, kernel, stride, pad, dilation. */\n"
     "typedef struct window {\n"
     "    long in, out, kernel, stride, pad, dilate;\n"
     "} window;\n"},
    {"fill_bias", NULL,
     "/* y (batch, channels, pixels) = bias, or 0 where there is none */\n"
     "static void fill_bias(float *y, const float *bias, long batch, long channels, long pixels)\n"
     "{\n"
     "    for (long i = 0; i < batch * channels; i++)\n"
     "        for (long p = 0; p < pixels; p++)\n"
     "            y[i * pixels + p] = bias ? bias[i % channels] : 0;\n"
     "}\n"},
    {"reach", "window",
     "/* Outputs [*begin, *end) whose kernel cell k lies inside the image. */\n"
     "static void reach(const window *w, long k, long *begin, long *end)\n"
     "{\n"
     "    const long shift = k * w->dilate - w->pad, last = w->in - 1 - shift;\n"
     "    *begin = shift >= 0 ? 0 : (-shift + w->stride - 1) / w->stride;\n"
     "    *end = last < 0 ? 0 : last / w->stride + 1;\n"
     "    *end = *end < w->out ? *end : w->out;\n"
     "}\n"},
    {"plane", "reach",
     "/* y (h.out, w.out) += x (h.in, w.in) correlated with one kernel plane */\n"
     "static void plane(const float *x, const float *weight, float *y, const window *h, const window *w)\n"
     "{\n"
     "    for (long i = 0; i < h->kernel; i++)\n"
     "        for (long j = 0; j < w->kernel; j++) {\n"
     "            long top, bottom, left, right;\n"
     "            const float factor = weight[i * w->kernel + j];\n"
     "            reach(h, i, &top, &bottom);\n"
     "            reach(w, j, &left, &right);\n"
     "            for (long r = top; r < bottom; r++) {\n"
     "                const float *from = x + (r * h->stride + i * h->dilate - h->pad) * w->in + j * w->dilate - w->pad;\n"
     "                float *to = y + r * w->out;\n"
     "                if (w->stride == 1)\n"
     "                    for (long c = left; c < right; c++)\n"
     "                        to[c] += factor * from[c];\n"
     "                else\n"
     "                    for (long c = left; c < right; c++)\n"
     "                        to[c] += factor * from[c * w->stride];\n"
     "            }\n"
     "        }\n"
     "}\n"},
    {"convolution", "plane fill_bias",
     "/* x (batch, c, h.in, w.in), weight (f, c / groups, kernels) -> y (batch, f, h.out, w.out) */\n"
     "static void convolution(const float *x, const float *weight, float *y, const float *bias, long batch, long c, long f,\n"
     "                        long groups, window h, window w)\n"
     "{\n"
     "    const long each = c / groups, cells = h.kernel * w.kernel, pixels = h.out * w.out;\n"
     "    fill_bias(y, bias, batch, f, pixels);\n"
     "    for (long n = 0; n < batch; n++)\n"
     "        for (long o = 0; o < f; o++)\n"
     "            for (long i = 0; i < each; i++)\n"
     "                plane(x + (n * c + o / (f / groups) * each + i) * h.in * w.in, weight + (o * each + i) * cells,\n"
     "                      y + (n * f + o) * pixels, &h, &w);\n"
     "}\n"},
    {"deconvolution", "window fill_bias",
     "/* x (batch, c, h.in, w.in), weight (c, f / groups, kernels) -> y (batch, f, h.out, w.out): adds every input's kernel */\n"
     "static void deconvolution(const float *x, const float *weight, float *y, const float *bias, long batch, long c, long f,\n"
     "                          long groups, window h, window w)\n"
     "{\n"
     "    const long each = f / groups, from = c / groups;\n"
     "    fill_bias(y, bias, batch, f, h.out * w.out);\n"
     "    for (long t = 0; t < batch * c * h.in * w.in; t++) {\n"
     "        const long col = t % w.in, row = t / w.in % h.in, i = t / w.in / h.in % c, n = t / w.in / h.in / c;\n"
     "        for (long o = 0; o < each; o++)\n"
     "            for (long k = 0; k < h.kernel * w.kernel; k++) {\n"
     "                const long p = row * h.stride - h.pad + k / w.kernel * h.dilate;\n"
     "                const long q = col * w.stride - w.pad + k % w.kernel * w.dilate;\n"
     "                if (p >= 0 && p < h.out && q >= 0 && q < w.out)\n"
     "                    y[((n * f + i / from * each + o) * h.out + p) * w.out + q] +=\n"
     "                        x[t] * weight[(i * each + o) * h.kernel * w.kernel + k];\n"
     "            }\n"
     "    }\n"
     "}\n"},
    {"pooling", "window",
     "/* kind: 0 max, 1 average, 2 sum; whole: the average counts the padding, too */\n"
     "static void pooling(const float *x, float *y, long planes, int kind, int whole, window h, window w)\n"
     "{\n"
     "    for (long t = 0; t < planes * h.out * w.out; t++) {\n"
     "        const long row = t / w.out % h.out * h.stride - h.pad, col = t % w.out * w.stride - w.pad;\n"
     "        const long low = row + h.kernel < h.in + h.pad ? row + h.kernel : h.in + h.pad;\n"
     "        const long far = col + w.kernel < w.in + w.pad ? col + w.kernel : w.in + w.pad;\n"
     "        const long top = row < 0 ? 0 : row, bottom = low < h.in ? low : h.in;\n"
     "        const long left = col < 0 ? 0 : col, right = far < w.in ? far : w.in;\n"
     "        const long count = whole ? (low - row) * (far - col) : (bottom - top) * (right - left);\n"
     "        const float *from = x + t / (h.out * w.out) * h.in * w.in;\n"
     "        float best = kind ? 0 : -INFINITY;\n"
     "        for (long i = top; i < bottom; i++)\n"
     "            for (long j = left; j < right; j++) {\n"
     "                const float v = from[i * w.in + j];\n"
     "                best = kind ? best + v : v > best || v != v ? v : best;\n"
     "            }\n"
     "        y[t] = kind == 1 ? best / (float)count : best;\n"
     "    }\n"
     "}\n"},
    {"batch_norm", NULL,
     "/* x (outer, c, inner); gamma NULL counts as 1 */\n"
     "static void batch_norm(const float *x, float *y, const float *gamma, const float *beta, const float *mean,\n"
     "                       const float *variance, long outer, long c, long inner, float eps)\n"
     "{\n"
     "    for (long i = 0; i < outer * c; i++) {\n"
     "        const float scale = (gamma ? gamma[i % c] : 1) / sqrtf(variance[i % c] + eps);\n"
     "        const float shift = beta[i % c] - mean[i % c] * scale;\n"
     "        for (long p = 0; p < inner; p++)\n"
     "            y[i * inner + p] = x[i * inner + p] * scale + shift;\n"
     "    }\n"
     "}\n"},
    {"normalize", NULL,
     "/* x (outer, n, inner): zero mean and unit variance over n, then gamma and beta, which change every `repeat` values of\n"
     " * (group, n, inner) and come again after `period` of them */\n"
     "static void normalize(const float *x, float *y, const float *gamma, const float *beta, long outer, long n, long inner,\n"
     "                      long repeat, long period, float eps)\n"
     "{\n"
     "    for (long t = 0; t < outer * inner; t++) {\n"
     "        const long first = t / inner * n * inner + t % inner;\n"
     "        double mean = 0, variance = 0;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            mean += x[first + k * inner] / (double)n;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            variance += (x[first + k * inner] - mean) * (x[first + k * inner] - mean) / (double)n;\n"
     "        for (long k = 0; k < n; k++) {\n"
     "            const long at = first + k * inner, p = at / repeat % period;\n"
     "            y[at] = (float)((x[at] - mean) / sqrt(variance + eps)) * gamma[p] + beta[p];\n"
     "        }\n"
     "    }\n"
     "}\n"},
    {"unit_length", NULL,
     "/* x (outer, n, inner) divided by its Euclidean length over n */\n"
     "static void unit_length(const float *x, float *y, long outer, long n, long inner, float eps)\n"
     "{\n"
     "    for (long t = 0; t < outer * inner; t++) {\n"
     "        const long first = t / inner * n * inner + t % inner;\n"
     "        double sum = eps;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            sum += (double)x[first + k * inner] * x[first + k * inner];\n"
     "        for (long k = 0; k < n; k++)\n"
     "            y[first + k * inner] = x[first + k * inner] / (float)sqrt(sum);\n"
     "    }\n"
     "}\n"},
    {"softmax", NULL,
     "/* x (outer, n, inner) times scale; the values along n sum to one (logs: their logarithms) */\n"
     "static void softmax(const float *x, float *y, long outer, long n, long inner, float scale, int logs)\n"
     "{\n"
     "    for (long t = 0; t < outer * inner; t++) {\n"
     "        const float *from = x + t / inner * n * inner + t % inner;\n"
     "        float *to = y + (from - x), most = -INFINITY;\n"
     "        double sum = 0;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            most = from[k * inner] * scale > most ? from[k * inner] * scale : most;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            sum += expf(from[k * inner] * scale - most);\n"
     "        for (long k = 0; k < n; k++) {\n"
     "            const float v = from[k * inner] * scale - most;\n"
     "            to[k * inner] = logs ? v - (float)log(sum) : expf(v) / (float)sum;\n"
     "        }\n"
     "    }\n"
     "}\n"},
    {"fold", "advance",
     "/* Folds the axes `folded` of x; y is what stays.  kind: 0 sum, 1 mean, 2 product, 3 maximum, 4 minimum, 5 sum of\n"
     " * absolute values, 6 root of the sum of squares */\n"
     "static void fold(const float *x, float *y, int kind, long kept, int nk, const long *kept_dim, const long *kept_step,\n"
     "                 long folded, int nf, const long *folded_dim, const long *folded_step)\n"
     "{\n"
     "    long at[16] = {0}, first = 0, unused = 0;\n"
     "    for (long i = 0; i < kept; i++) {\n"
     "        long inner[16] = {0}, place = first;\n"
     "        double sum = kind == 2 ? 1 : kind == 3 ? -INFINITY : kind == 4 ? INFINITY : 0;\n"
     "        for (long k = 0; k < folded; k++) {\n"
     "            const double v = x[place];\n"
     "            sum = kind < 2    ? sum + v\n"
     "                  : kind == 2 ? sum * v\n"
     "                  : kind == 3 ? (v > sum || v != v ? v : sum)\n"
     "                  : kind == 4 ? (v < sum || v != v ? v : sum)\n"
     "                  : kind == 5 ? sum + fabs(v)\n"
     "                              : sum + v * v;\n"
     "            advance(nf, inner, folded_dim, folded_step, &place, folded_step, &unused);\n"
     "        }\n"
     "        y[i] = (float)(kind == 1 ? sum / (double)folded : kind == 6 ? sqrt(sum) : sum);\n"
     "        advance(nk, at, kept_dim, kept_step, &first, kept_step, &unused);\n"
     "    }\n"
     "}\n"},
    {"rows", NULL,
     "/* Rows of a table (count, width); numbers outside it are moved to its ends. */\n"
     "static void rows(const float *index, const float *table, float *y, long n, long count, long width)\n"
     "{\n"
     "    for (long i = 0; i < n; i++) {\n"
     "        const float v = index[i];\n"
     "        const long row = v >= (float)(count - 1) ? count - 1 : v > 0 ? (long)v : 0;\n"
     "        memcpy(y + i * width, table + row * width, (size_t)width * sizeof *y);\n"
     "    }\n"
     "}\n"},
    {"leaky", NULL,
     "/* x (outer, channels, inner); below zero: slope * x, one slope per channel */\n"
     "static void leaky(const float *x, const float *slope, float *y, long outer, long channels, long inner)\n"
     "{\n"
     "    for (long i = 0; i < outer * channels * inner; i++)\n"
     "        y[i] = x[i] > 0 ? x[i] : slope[i / inner % channels] * x[i];\n"
     "}\n"},
    {"elu", NULL,
     "static void elu(const float *x, float *y, long n, float scale, float alpha)\n"
     "{\n"
     "    for (long i = 0; i < n; i++)\n"
     "        y[i] = scale * (x[i] > 0 ? x[i] : alpha * expm1f(x[i]));\n"
     "}\n"},
    {"gelu", NULL,
     "static void gelu(const float *x, float *y, long n)\n"
     "{\n"
     "    for (long i = 0; i < n; i++)\n"
     "        y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));\n"
     "}\n"},
    {"clip", NULL,
     "static void clip(const float *x, float *y, long n, float low, float high)\n"
     "{\n"
     "    for (long i = 0; i < n; i++)\n"
     "        y[i] = x[i] < low ? low : x[i] > high ? high : x[i];\n"
     "}\n"},
    {"hard_sigmoid", NULL,
     "static void hard_sigmoid(const float *x, float *y, long n, float alpha, float beta)\n"
     "{\n"
     "    for (long i = 0; i < n; i++) {\n"
     "        const float v = alpha * x[i] + beta;\n"
     "        y[i] = v < 0 ? 0 : v > 1 ? 1 : v;\n"
     "    }\n"
     "}\n"},
    {"m_sigmoid", NULL,
     "static float m_sigmoid(float x)\n{\n    return 1 / (1 + expf(-x));\n}\n"},
    {"m_softplus", NULL,
     "static float m_softplus(float x)\n{\n    return x > 0 ? x + log1pf(expf(-x)) : log1pf(expf(x));\n}\n"},
    {"m_sign", NULL, "static float m_sign(float x)\n{\n    return (float)((x > 0) - (x < 0));\n}\n"},
    {"m_max", NULL, "static float m_max(float a, float b)\n{\n    return a >= b || a != a ? a : b;\n}\n"},
    {"m_min", NULL, "static float m_min(float a, float b)\n{\n    return a <= b || a != a ? a : b;\n}\n"},
    {"m_div", NULL, "static float m_div(float a, float b)\n{\n    return a / b;\n}\n"},
    {"m_mod", NULL,
     "/* Remainder with the sign of b; 0 when b is 0. */\n"
     "static float m_mod(float a, float b)\n"
     "{\n"
     "    const float r = b == 0 ? 0 : fmodf(a, b);\n"
     "    return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n"
     "}\n"},
};
#define COUNT ((int)(sizeof kernels / sizeof *kernels))
_Static_assert(sizeof kernels / sizeof *kernels <= 64, "one bit per kernel");

/* True if `name` is one of the words of `list`. */
static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += length)
        if ((p == list || p[-1] == ' ') && (p[length] == 0 || p[length] == ' '))
            return true;
    return false;
}

void mx_emit_use(mx_emit *emit, const char *name)
{
    for (int i = 0; i < COUNT; i++)
        if (!strcmp(kernels[i].name, name))
            emit->used |= (uint64_t)1 << i;
    for (int i = COUNT - 1; i >= 0; i--) /* what is needed stands before: one sweep finds all */
        for (int k = 0; emit->used >> i & 1 && k < i; k++)
            if (kernels[i].needs && listed(kernels[i].needs, kernels[k].name))
                emit->used |= (uint64_t)1 << k;
}

const char *mx_emit_kernel(int i, const char **name)
{
    if (i >= COUNT)
        return NULL;
    *name = kernels[i].name;
    return kernels[i].text;
}
