/* Kernels of the operators that only plans use: chains of pointwise functions, folded normalisation.
 *
 * A chain is compiled at its first run (cuda/compile.h): its rows become one expression after the other, between four
 * elements read and four written.
 *
 *     [add, relu] of in0, in1   ->   r0 = binary_add::apply(x0[l], x1[l], 0); r1 = forward_relu::apply(r0, 0, 0); y[l] = r1;
 *
 * The rows are those of the pointwise table, by the same text as everywhere.  Their numbers are arguments, so chains that
 * differ in them are one kernel; only exponents stand in the text, as a constant power is much simpler.  Where nothing can
 * be compiled, one kernel interprets all chains.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <mutex>
#include <unordered_map>

#include "cuda/compile.h"
#include "cuda/kernels/chain.h"
#include "cuda/kernels/rows_f32.h"
extern "C" {
#include "op/fused.h"
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

#define ROW_NAME(name, ...) #name,
static const char *const row_names[MX_ROW_COUNT] = {MX_UNARY_ROWS(ROW_NAME) MX_LINEAR_ROWS(ROW_NAME) MX_STEP_ROWS(ROW_NAME)
                                                        MX_BINARY_ROWS(ROW_NAME) MX_COMPARE_ROWS(ROW_NAME)};

static const char *type_name(int dtype) { return dtype == MX_FLOAT16 ? "half" : dtype == MX_BFLOAT16 ? "bfloat" : "float"; }

static std::string operand_text(const mx_fused_row &row, int k)
{
    const int from = row.in[k];
    if (from < 0)
        return "0";
    return from < MX_FUSED_INPUTS ? "x" + std::to_string(from) + "[l]" : "r" + std::to_string(from - MX_FUSED_INPUTS);
}

static std::string number_text(const mx_fused_row &row, int r)
{
    char text[64];
    if (row.row != MX_ROW_power)
        return "c.scalar[" + std::to_string(r) + "]";
    snprintf(text, sizeof text, "(float)(%a)", row.scalar);
    return text;
}

/* const float r3 = binary_mul::apply(r1, r2, 0); */
static std::string row_text(const mx_fused_row &row, int r)
{
    const bool binary = row.form >= MX_FORM_BINARY;
    const std::string first = operand_text(row, 0), number = number_text(row, r);
    const std::string a = row.form == MX_FORM_REVERSED ? number : first;
    const std::string b = row.form == MX_FORM_REVERSED ? first : row.form == MX_FORM_SCALAR ? number : operand_text(row, 1);
    const char *kind = binary ? "binary_" : row.form == MX_FORM_BACKWARD ? "backward_" : "forward_";
    return "            const float r" + std::to_string(r) + " = " + kind + row_names[row.row] + "::apply(" + a + ", " + b + ", " +
           operand_text(row, 2) + ");\n";
}

static std::string program_text(const mx_kernel_call *call, const mx_fused *program)
{
    std::string reads, rows;
    for (int k = 0; k < program->n_in; k++) {
        const std::string n = std::to_string(k);
        reads += "        float x" + n + "[4];\n        read<" + type_name(call->in[k]->dtype) + ">(x" + n + ", c.in[" + n +
                 "], i, lanes, whole);\n";
    }
    for (int r = 0; r < program->n_rows; r++)
        rows += row_text(program->rows[r], r);
    return "#include \"cuda/kernels/chain.h\"\n"
           "#include \"op/pointwise.h\"\n"
           "#define T float\n"
           "#include \"cuda/kernels/math_f32.h\"\n"
           "#include \"cuda/kernels/pointwise_rows.h\"\n"
           "extern \"C\" __global__ void __launch_bounds__(256) chain(const __grid_constant__ mx_chain c)\n"
           "{\n"
           "    const long long stride = (long long)gridDim.x * blockDim.x * 4;\n"
           "    for (long long i = ((long long)blockIdx.x * blockDim.x + threadIdx.x) * 4; i < c.n; i += stride) {\n"
           "        const int lanes = c.n - i < 4 ? (int)(c.n - i) : 4;\n"
           "        const bool whole = c.aligned && lanes == 4;\n"
           "        float y[4];\n" +
           reads +
           "#pragma unroll\n"
           "        for (int l = 0; l < 4; l++) {\n" +
           rows + "            y[l] = r" + std::to_string(program->n_rows - 1) + ";\n        }\n        write<" +
           type_name(call->out[0]->dtype) + ">(y, c.out, i, lanes, whole);\n    }\n}\n";
}

/* ---- compiled chains --------------------------------------------------------------------------------------------- */

/* What the text depends on. */
static std::string key_of(const mx_cuda_device *d, const mx_kernel_call *call, const mx_fused *program)
{
    std::string key;
    key.reserve(16 + sizeof *program);
    key += (char)d->id, key += (char)program->n_in, key += (char)call->out[0]->dtype;
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

/* NULL: it is to be interpreted.  While launches are recorded nothing is compiled. */
static cudaKernel_t compiled(const mx_cuda_device *d, const mx_kernel_call *call, const mx_fused *program)
{
    static std::mutex lock;
    static std::unordered_map<std::string, cudaKernel_t> table;
    const std::string key = key_of(d, call, program);
    std::lock_guard<std::mutex> guard(lock);
    const auto found = table.find(key);
    if (found != table.end())
        return found->second;
    if (d->pool)
        return nullptr;
    return table[key] = mx_cuda_compile(d, program_text(call, program), "chain");
}

static mx_code run_compiled(const mx_kernel_call *call, mx_cuda_device *d, const mx_fused *program, cudaKernel_t kernel)
{
    const mx_array *out = call->out[0];
    mx_chain c = {};
    c.out = mx_data(out), c.n = out->size, c.aligned = mx_cuda_aligned(mx_data(out), out->dtype);
    for (int k = 0; k < call->n_in; k++) {
        c.in[k] = mx_data(call->in[k]);
        c.aligned &= mx_cuda_aligned(mx_data(call->in[k]), call->in[k]->dtype);
    }
    for (int r = 0; r < program->n_rows; r++)
        c.scalar[r] = (float)program->rows[r].scalar;
    void *arguments[] = {&c};
    const int64_t each = MX_CUDA_BLOCK * MX_CUDA_LANES;
    const unsigned blocks = mx_cuda_blocks(d, (c.n + each - 1) / each);
    return mx_cuda_fail(cudaLaunchKernel((const void *)kernel, dim3(blocks), dim3(MX_CUDA_BLOCK), arguments, 0, d->stream),
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
                                            cudaMemcpyDeviceToDevice, d->stream), call->op->name);
    if (!known_types(call))
        return MX_DECLINED;
    if (!call->out[0]->size)
        return MX_OK;
    cudaKernel_t kernel = compiled(d, call, program);
    return kernel ? run_compiled(call, d, program, kernel) : interpret(call, program);
}

/* ---- _fold_norm: batch normalisation into the weights before it --------------------------------------------------------- */

template <class F> static mx_code fold(const mx_kernel_call *call)
{
    const mx_fold_norm_attrs *attrs = (const mx_fold_norm_attrs *)call->attrs;
    const mx_array *weight = call->in[0];
    if (!weight->size)
        return MX_DECLINED;
    const int64_t each = weight->size / weight->shape[0];
    const F *w = (const F *)mx_data(weight), *beta = (const F *)mx_data(call->in[2]), *mean = (const F *)mx_data(call->in[3]);
    const F *var = (const F *)mx_data(call->in[4]), *gamma = attrs->fix_gamma ? nullptr : (const F *)mx_data(call->in[1]);
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
