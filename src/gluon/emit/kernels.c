/* The fixed kernels of a network that is written as C: simple loops, each written out only if it is used.
 *
 * Order matters: a kernel follows those that it calls.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "gluon/emit/emit.h"
#include "op/formula/math.h"

/* The functions of formulas that <math.h> lacks, from the text that every device compiles. */
#define T float
#define m_exp expf
#define m_log1p log1pf
#define m_fmod fmodf
#define TEXT(...) #__VA_ARGS__
#define UNARY(name, expression) \
    {"m_" #name, NULL, "static float m_" #name "(float x)\n{\n    return " TEXT(expression) ";\n}\n"},
#define BINARY(name, expression) \
    {"m_" #name, NULL, \
     "static float m_" #name "(float a, float b)\n{\n    float t = 0;\n    (void)t;\n    return " TEXT(expression) ";\n}\n"},

static const mx_emit_text plain[] = {
    {"advance", NULL,
     "/* Advances a position in a box by one, in C order, and two offsets with it. */\n"
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
     "/* Per batch: a (m, k) times b (k, n); ta, tb: stored transposed. */\n"
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
     " * (group, n, inner) and repeat after `period` of them */\n"
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
     "/* x (outer, n, inner) times scale; the values along n, or the first `length` of them, sum to one (logs: their\n"
     " * logarithms) */\n"
     "static void softmax(const float *x, float *y, const float *length, long outer, long n, long inner, float scale, int logs)\n"
     "{\n"
     "    for (long t = 0; t < outer * inner; t++) {\n"
     "        const long first = t / inner * n * inner + t % inner, some = length ? (long)length[t] : n;\n"
     "        const float *from = x + first;\n"
     "        float *to = y + first, most = -INFINITY;\n"
     "        double sum = 0;\n"
     "        for (long k = 0; k < some; k++)\n"
     "            most = from[k * inner] * scale > most ? from[k * inner] * scale : most;\n"
     "        for (long k = 0; k < some; k++)\n"
     "            sum += expf(from[k * inner] * scale - most);\n"
     "        for (long k = 0; k < n; k++) {\n"
     "            const float v = k < some ? from[k * inner] * scale - most : 0;\n"
     "            to[k * inner] = k >= some ? 0 : logs ? v - (float)log(sum) : expf(v) / (float)sum;\n"
     "        }\n"
     "    }\n"
     "}\n"},
    {"cross_entropy", NULL,
     "/* x (outer, n, inner): minus the logarithm of softmax at the label's class, or over all classes by the label's shares */\n"
     "static void cross_entropy(const float *x, const float *label, float *y, long outer, long n, long inner, int numbers)\n"
     "{\n"
     "    for (long t = 0; t < outer * inner; t++) {\n"
     "        const long first = t / inner * n * inner + t % inner;\n"
     "        const float *from = x + first;\n"
     "        float most = -INFINITY;\n"
     "        double sum = 0, loss = 0;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            most = from[k * inner] > most ? from[k * inner] : most;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            sum += expf(from[k * inner] - most);\n"
     "        const long at = numbers ? (label[t] <= 0 ? 0 : label[t] >= (float)(n - 1) ? n - 1 : (long)label[t]) : 0;\n"
     "        for (long k = 0; k < n; k++)\n"
     "            loss -= (numbers ? k == at : label[first + k * inner]) * (from[k * inner] - most - log(sum));\n"
     "        y[t] = (float)loss;\n"
     "    }\n"
     "}\n"},
    {"fold", "advance",
     "/* Reduces the axes `folded` of x to y.  kind: 0 sum, 1 mean, 2 product, 3 maximum, 4 minimum, 5 sum of\n"
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
     "/* Rows of a table (count, width); indices are clamped. */\n"
     "static void rows(const float *index, const float *table, float *y, long n, long count, long width)\n"
     "{\n"
     "    for (long i = 0; i < n; i++) {\n"
     "        const float v = index[i];\n"
     "        const long row = v >= (float)(count - 1) ? count - 1 : v > 0 ? (long)v : 0;\n"
     "        memcpy(y + i * width, table + row * width, (size_t)width * sizeof *y);\n"
     "    }\n"
     "}\n"},
    {"ramp", NULL,
     "static void ramp(float *y, long n, long repeat, float start, float step)\n"
     "{\n"
     "    for (long i = 0; i < n; i++)\n"
     "        y[i] = start + step * (float)(i / repeat);\n"
     "}\n"},
    {"match_keys", NULL,
     "/* q (lq, batch, heads, q_roles, d) and k, role q_roles == 1 ? 0 : 1 of (lk, batch, heads, k_roles, d)\n"
     " * -> y (batch * heads, lq, lk) = q k' / sqrt(d) */\n"
     "static void match_keys(const float *q, const float *k, float *y, long lq, long lk, long batch, long heads, long d,\n"
     "                       int q_roles, int k_roles)\n"
     "{\n"
     "    const long groups = batch * heads, key = q_roles == 1 ? 0 : 1;\n"
     "    for (long t = 0; t < groups * lq * lk; t++) {\n"
     "        const long j = t % lk, i = t / lk % lq, g = t / lk / lq;\n"
     "        const float *a = q + (i * groups + g) * q_roles * d, *b = k + ((j * groups + g) * k_roles + key) * d;\n"
     "        float sum = 0;\n"
     "        for (long p = 0; p < d; p++)\n"
     "            sum += a[p] * b[p];\n"
     "        y[t] = sum / sqrtf((float)d);\n"
     "    }\n"
     "}\n"},
    {"weigh_values", NULL,
     "/* v, the last role of (lk, batch, heads, roles, d); weight (batch * heads, lq, lk) -> y (lq, batch, heads, d) */\n"
     "static void weigh_values(const float *v, const float *weight, float *y, long lq, long lk, long batch, long heads, long d,\n"
     "                         int roles)\n"
     "{\n"
     "    const long groups = batch * heads;\n"
     "    for (long t = 0; t < lq * groups * d; t++) {\n"
     "        const long p = t % d, g = t / d % groups, i = t / d / groups;\n"
     "        float sum = 0;\n"
     "        for (long j = 0; j < lk; j++)\n"
     "            sum += weight[(g * lq + i) * lk + j] * v[((j * groups + g) * roles + roles - 1) * d + p];\n"
     "        y[t] = sum;\n"
     "    }\n"
     "}\n"},
    {"choose", NULL,
     "/* y = condition ? a : b; one condition for `each` values */\n"
     "static void choose(const float *condition, const float *a, const float *b, float *y, long n, long each)\n"
     "{\n"
     "    for (long i = 0; i < n; i++)\n"
     "        y[i] = condition[i / each] != 0 ? a[i] : b[i];\n"
     "}\n"},
    MX_CHOICE_ROWS(UNARY, BINARY) MX_COMPOSED_ROWS(UNARY, BINARY)
    {0},
};

/* All tables as one list, in the order of the file. */
static const mx_emit_text *text_at(int i)
{
    static const mx_emit_text *const tables[] = {plain, mx_emit_image_kernels, mx_emit_sequence_kernels};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const mx_emit_text *row = tables[t]; row->name; row++)
            if (!i--)
                return row;
    return NULL;
}

/* True if `name` is one of the words of `list`. */
static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *p = list; p && (p = strstr(p, name)); p += length)
        if ((p == list || p[-1] == ' ') && (p[length] == 0 || p[length] == ' '))
            return true;
    return false;
}

/* A kernel may be needed by those that follow it. */
static bool is_used(const mx_emit_file *file, int i)
{
    const mx_emit_text *row = text_at(i), *later;
    if (mx_dict_find(&file->used, row->name))
        return true;
    for (int k = i + 1; (later = text_at(k)); k++)
        if (listed(later->needs, row->name) && is_used(file, k))
            return true;
    return false;
}

const char *mx_emit_kernel(const mx_emit_file *file, int i)
{
    const mx_emit_text *row = text_at(i);
    return !row ? NULL : is_used(file, i) ? row->text : "";
}
