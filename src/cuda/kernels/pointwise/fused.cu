/* Kernels of operators that only plans use: chains of pointwise functions, folded normalisation.
 *
 * A chain is compiled at its first run (cuda/compile.h): its table entries become a sequence of expressions in a function,
 * which is called for four elements that are read and written at once, and, in a second loop, for the remaining ones.  As that
 * loop takes a third of the compile time, it is generated only for arrays that need it.
 *
 *     [add, relu] of in0, in1   ->   a = x0, b = x1, r0 = a + b;   x = r0, r1 = x < 0 ? 0 : x;   return r1
 *
 * The expressions are those of the pointwise table, as everywhere.  Scalars are arguments, so chains that differ in them share
 * a kernel; only exponents are part of the source, as a constant power is much simpler.  Without a compiler, one kernel
 * interprets all chains.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>
#include <unordered_map>

#include "cuda/compile.h"
#include "cuda/kernels/pointwise/chain.h"
#include "cuda/kernels/pointwise/rows_f32.h"
extern "C" {
#include "op/formula/fused.h"
}

static_assert(MX_CHAIN_INPUTS == MX_FUSED_INPUTS && MX_CHAIN_ROWS == MX_FUSED_ROWS, "a chain's sizes");

/* ---- interpreting ------------------------------------------------------------------------------------------------ */

struct chain {
    mx_fused program;
    const void *in[MX_FUSED_INPUTS];
    int8_t type[MX_FUSED_INPUTS];
};

static __device__ float operand(const chain &c, const mx_fused_row &row, int k, const float *made, int64_t i)
{
    const int from = row.in[k];
    return from < 0                 ? 0
           : from < MX_FUSED_INPUTS ? mx_cuda_load<float>(c.in[from], c.type[from], i)
                                    : made[from - MX_FUSED_INPUTS];
}

static mx_code interpret(const mx_kernel_call *call, const mx_fused *program)
{
    void *out = mx_data(call->out[0]);
    const int out_type = call->out[0]->dtype;
    chain c = {*program, {}, {}};
    for (int k = 0; k < call->n_in; k++)
        c.in[k] = mx_data(call->in[k]), c.type[k] = (int8_t)call->in[k]->dtype;
    return mx_cuda_each(call, call->out[0]->size, [=] __device__(int64_t i) {
        float made[MX_FUSED_ROWS];
        for (int r = 0; r < c.program.n_rows; r++) {
            const mx_fused_row &row = c.program.rows[r];
            const float first = operand(c, row, 0, made, i), number = (float)row.scalar;
            const float a = row.form == MX_FORM_REVERSED ? number : first;
            const float b = row.form == MX_FORM_REVERSED ? first
                            : row.form == MX_FORM_SCALAR ? number
                                                         : operand(c, row, 1, made, i);
            made[r] = apply_row(row.row, row.form, a, b, operand(c, row, 2, made, i));
        }
        mx_cuda_store<float>(out, out_type, i, made[c.program.n_rows - 1]);
    });
}

/* ---- writing a program ------------------------------------------------------------------------------------------- */

/* The entries' expressions as in the table; for a gradient also the value it reads. */
struct words {
    const char *forward, *gradient, *looks;
};
#define UNARY_WORDS(name, aliases, forward, looks, gradient, ...) {#forward, #gradient, #looks},
#define STEP_WORDS(name, aliases, forward, ...) {#forward, "0", ""},
#define BINARY_WORDS(id, en, ea, bn, ba, sn, sa, m1, m2, m3, m4, forward, ...) {#forward, "0", ""},
#define COMPARE_WORDS(id, en, ea, bn, ba, sn, sa, forward, ...) {#forward, "0", ""},
static const words row_words[MX_ROW_COUNT] = {MX_UNARY_ROWS(UNARY_WORDS) MX_LINEAR_ROWS(STEP_WORDS) MX_STEP_ROWS(
    STEP_WORDS) MX_BINARY_ROWS(BINARY_WORDS) MX_COMPARE_ROWS(COMPARE_WORDS)};

static const char *type_name(int dtype)
{
    return dtype == MX_FLOAT16 ? "half" : dtype == MX_BFLOAT16 ? "bfloat" : "float";
}

static std::string operand_text(const mx_fused_row &row, int k)
{
    const int from = row.in[k];
    if (from < 0)
        return "0";
    return from < MX_FUSED_INPUTS ? "x" + std::to_string(from) : "r" + std::to_string(from - MX_FUSED_INPUTS);
}

static std::string number_text(const mx_fused_row &row, int r)
{
    char text[64];
    if (row.row != MX_ROW_power)
        return "c.scalar[" + std::to_string(r) + "]";
    snprintf(text, sizeof text, "(float)(%a)", row.scalar);
    return text;
}

/* The letters that an expression uses for its operands. */
static std::string letters_of(const mx_fused_row &row)
{
    if (row.form >= MX_FORM_BINARY)
        return "ab";
    if (row.form == MX_FORM_UNARY)
        return "x";
    const std::string looks = row_words[row.row].looks;
    return looks == "X" ? "gx" : looks == "Y" ? "gy" : "gxy";
}

/* float r3; { const float a = r1, b = r2; float t; r3 = (float)(a * b); } */
static std::string row_text(const mx_fused_row &row, int r)
{
    const bool scalar = row.form == MX_FORM_SCALAR, reversed = row.form == MX_FORM_REVERSED;
    const std::string first = operand_text(row, 0), number = number_text(row, r), letters = letters_of(row);
    const std::string operands[] = {reversed ? number : first,
                                    reversed ? first
                                    : scalar ? number
                                             : operand_text(row, 1),
                                    operand_text(row, 2)};
    const std::string name = "r" + std::to_string(r);
    std::string text = "    float " + name + "; { const float ";
    for (size_t k = 0; k < letters.size(); k++)
        text += (k ? ", " : "") + letters.substr(k, 1) + " = " + operands[k];
    const words &w = row_words[row.row];
    const std::string made = row.form == MX_FORM_BACKWARD ? w.gradient : w.forward;
    return text + "; float t; " + name + " = (float)(" + made + "); }\n";
}

/* Text that is repeated for each input: '#' is its number, '@' its type. */
static std::string for_inputs(const mx_kernel_call *call, const mx_fused *program, const char *said,
                              const char *between)
{
    std::string text;
    for (int k = 0; k < program->n_in; k++) {
        text += k ? between : "";
        for (const char *c = said; *c; c++)
            text += *c == '#' ? std::to_string(k) : *c == '@' ? type_name(call->in[k]->dtype) : std::string(1, *c);
    }
    return text;
}

/* Fills in the names between two $. */
static const char whole_text[] = R"(#include "cuda/kernels/pointwise/chain.h"
#include "cuda/kernels/pointwise/math_f32.h"
#define T float
__device__ inline float value(const mx_chain &c, $parameters$)
{
$rows$    return $last row$;
}
extern "C" __global__ void __launch_bounds__(256) chain(const __grid_constant__ mx_chain c)
{
    const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    const long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = first; i < c.fours; i += step) {
        float y[4], $fours$;
$reads$#pragma unroll
        for (int l = 0; l < 4; l++)
            y[l] = value(c, $lanes$);
        write<$out$>(y, c.out, i);
    }
$rest$})";

static const char rest_text[] = R"(    for (long long i = 4 * c.fours + first; i < c.n; i += step)
        narrow(value(c, $elements$), ($out$ *)c.out + i);
)";

static void fill_in(std::string *text, const std::string &place, const std::string &what)
{
    for (size_t at; (at = text->find(place)) != std::string::npos;)
        text->replace(at, place.size(), what);
}

static std::string program_text(const mx_kernel_call *call, const mx_fused *program, bool rest)
{
    std::string text = whole_text, rows;
    const auto each = [&](const char *said, const char *between) { return for_inputs(call, program, said, between); };
    for (int r = 0; r < program->n_rows; r++)
        rows += row_text(program->rows[r], r);
    fill_in(&text, "$rest$", rest ? rest_text : "");
    fill_in(&text, "$rows$", rows);
    fill_in(&text, "$last row$", "r" + std::to_string(program->n_rows - 1));
    fill_in(&text, "$parameters$", each("float x#", ", "));
    fill_in(&text, "$fours$", each("x#[4]", ", "));
    fill_in(&text, "$reads$", each("        read<@>(x#, c.in[#], i);\n", ""));
    fill_in(&text, "$lanes$", each("x#[l]", ", "));
    fill_in(&text, "$elements$", each("widen(((const @ *)c.in[#])[i])", ", "));
    fill_in(&text, "$out$", type_name(call->out[0]->dtype));
    return text;
}

/* ---- compiled chains --------------------------------------------------------------------------------------------- */

/* What the source depends on. */
static std::string key_of(const mx_cuda_device *d, const mx_kernel_call *call, const mx_fused *program, bool rest)
{
    std::string key;
    key.reserve(16 + sizeof *program);
    key += (char)d->id, key += (char)rest, key += (char)program->n_in, key += (char)call->out[0]->dtype;
    for (int k = 0; k < program->n_in; k++)
        key += (char)call->in[k]->dtype;
    for (int r = 0; r < program->n_rows; r++) {
        const mx_fused_row &row = program->rows[r];
        key.append((const char *)&row.row, sizeof row.row);
        key += (char)row.form;
        key.append((const char *)row.in, sizeof row.in);
        if (row.row == MX_ROW_power)
            key.append((const char *)&row.scalar, sizeof row.scalar);
    }
    return key;
}

/* NULL: the chain is interpreted.  While launches are captured nothing is compiled. */
static cudaKernel_t compiled(const mx_cuda_device *d, const mx_kernel_call *call, const mx_fused *program, bool rest)
{
    static std::mutex lock;
    static std::unordered_map<std::string, cudaKernel_t> table;
    const std::string key = key_of(d, call, program, rest);
    std::lock_guard<std::mutex> guard(lock);
    const auto found = table.find(key);
    if (found != table.end())
        return found->second;
    if (d->pool)
        return nullptr;
    return table[key] = mx_cuda_compile(d, program_text(call, program, rest), "chain");
}

static mx_chain arguments_of(const mx_kernel_call *call, const mx_fused *program)
{
    const mx_array *out = call->out[0];
    mx_chain c = {};
    bool aligned = mx_cuda_aligned(mx_data(out), out->dtype);
    for (int k = 0; k < call->n_in; k++) {
        c.in[k] = mx_data(call->in[k]);
        aligned &= mx_cuda_aligned(mx_data(call->in[k]), call->in[k]->dtype);
    }
    c.out = mx_data(out), c.n = out->size, c.fours = aligned ? c.n / 4 : 0;
    for (int r = 0; r < program->n_rows; r++)
        c.scalar[r] = (float)program->rows[r].scalar;
    return c;
}

static mx_code run_compiled(const mx_kernel_call *call, mx_cuda_device *d, mx_chain *c, cudaKernel_t kernel)
{
    void *arguments[] = {c};
    const int64_t each = MX_CUDA_BLOCK * MX_CUDA_LANES;
    const unsigned blocks = mx_cuda_blocks(d, (c->n + each - 1) / each);
    return mx_cuda_fail(
        cudaLaunchKernel((const void *)kernel, dim3(blocks), dim3(MX_CUDA_BLOCK), arguments, 0, d->stream),
        call->op->name);
}

static bool known_types(const mx_kernel_call *call)
{
    bool known = mx_dtype_is_float(call->out[0]->dtype) && call->out[0]->dtype != MX_FLOAT64;
    for (int k = 0; k < call->n_in; k++)
        known &= mx_dtype_is_float(call->in[k]->dtype) && call->in[k]->dtype != MX_FLOAT64;
    return known;
}

static mx_code run_chain(const mx_kernel_call *call)
{
    const mx_fused *program = (const mx_fused *)call->attrs;
    mx_cuda_device *d = mx_cuda_of(call);
    if (!d)
        return mx_error_code();
    if (!program)
        return mx_cuda_fail(cudaMemcpyAsync(mx_data(call->out[0]), mx_data(call->in[0]), mx_bytes(call->out[0]),
                                            cudaMemcpyDeviceToDevice, d->stream),
                            call->op->name);
    if (!known_types(call))
        return MX_DECLINED;
    if (!call->out[0]->size)
        return MX_OK;
    mx_chain c = arguments_of(call, program);
    cudaKernel_t kernel = compiled(d, call, program, c.n != 4 * c.fours);
    return kernel ? run_compiled(call, d, &c, kernel) : interpret(call, program);
}

/* ---- _fold_norm: batch normalisation into the weights before it --------------------------------------------------------- */

template <class F> static mx_code fold(const mx_kernel_call *call)
{
    const mx_fold_norm_attrs *attrs = (const mx_fold_norm_attrs *)call->attrs;
    const mx_array *weight = call->in[0];
    if (!weight->size)
        return MX_DECLINED;
    const int64_t each = weight->size / weight->shape[0];
    const F *w = (const F *)mx_data(weight), *beta = (const F *)mx_data(call->in[2]),
            *mean = (const F *)mx_data(call->in[3]);
    const F *var = (const F *)mx_data(call->in[4]),
            *gamma = attrs->fix_gamma ? nullptr : (const F *)mx_data(call->in[1]);
    const F *bias = mx_is_none(call->in[5]) ? nullptr : (const F *)mx_data(call->in[5]);
    F *new_weight = (F *)mx_data(call->out[0]), *new_bias = (F *)mx_data(call->out[1]);
    const double eps = attrs->eps;
    return mx_cuda_each(call, weight->size, [=] __device__(int64_t i) {
        const int64_t c = i / each;
        const F s = (F)((gamma ? (double)gamma[c] : 1) / sqrt((double)var[c] + eps));
        new_weight[i] = w[i] * s;
        if (i % each == 0)
            new_bias[c] = ((bias ? bias[c] : 0) - mean[c]) * s + beta[c];
    });
}
MX_CUDA_FLOATS(run_fold, fold)

MX_CUDA_KERNELS(fused) = {{"_pointwise", run_chain, NULL}, {"_fold_norm", run_fold, NULL}, {NULL, NULL, NULL}};
