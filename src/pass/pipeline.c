/* The list of passes between building and binding a program.
 *
 *     trace -> gradient -> build (infer) -> [ the list below ] -> memory -> bind
 *
 * The flag MXNET_PLAN_DUMP names a folder: every program is written there after every pass, as text and as DOT.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/error.h"
#include "base/file.h"
#include "base/flags.h"
#include "pass/passes.h"

// clang-format off
static const struct {
    const char *name;
    mx_code (*run)(mx_program *program);
    uint32_t needs; /* required capabilities of the device (ndarray/device.h); 0: none */
} passes[] = {
    {"identity", mx_pass_identity, 0},
    {"entropy", mx_pass_entropy, 0},
    {"constants", mx_pass_constants, 0},
    {"common", mx_pass_common, 0},
    {"dead", mx_pass_dead, 0},
    {"norm", mx_pass_norm, 0},
    {"pool", mx_pass_pool, 0},
    {"loss", mx_pass_loss, 0},
    {"bias", mx_pass_bias, MX_CAN_JOIN_BIAS},
    {"roles", mx_pass_roles, MX_CAN_ROUND_ANEW},
    {"classes", mx_pass_classes, MX_CAN_ALIGN_ROWS},
    {"activation", mx_pass_activation, 0},
    {"layout", mx_pass_layout, 0},
    {"residual", mx_pass_residual, 0},
    {"dense", mx_pass_dense, 0},
    {"channels_last", mx_pass_channels_last, MX_CAN_CHANNELS_LAST},
    {"epilogue", mx_pass_epilogue, MX_CAN_FUSE_EPILOGUE},
    {"norm_parts", mx_pass_norm_parts, MX_CAN_NORM_PARTS},
    {"norm_limited", mx_pass_norm_limited, MX_CAN_LIMIT_NORM},
    {"addition", mx_pass_addition, MX_CAN_ROUND_ANEW},
    {"gelu", mx_pass_gelu, MX_CAN_RECOMPUTE | MX_CAN_JOIN_BIAS},
    {"segments", mx_pass_segments, 0},
    {"recompute", mx_pass_recompute, MX_CAN_RECOMPUTE},
    {"activation_gradient", mx_pass_activation_gradient, MX_CAN_JOIN_RELU_GRADIENT},
    {"pointwise", mx_pass_pointwise, 0},
    {"results", mx_pass_results, 0},
    {"prepare", mx_pass_prepare, 0},
    {"batch", mx_pass_batch, 0},
};
// clang-format on

/* dump: of the program, among those of this process; number: of the pass */
static void write_dump(const mx_program *program, const char *name, int dump, int number, const char *pass)
{
    const char *folder = mx_flags_get()->plan_dump;
    if (!*folder)
        return;
    for (int dot = 0; dot < 2; dot++) {
        char path[4300];
        mx_text text = {0};
        (dot ? mx_program_dot : mx_program_text)(program, &text);
        snprintf(path, sizeof path, "%s/%03d-%.100s-%02d-%s.%s", folder, dump, name, number, pass, dot ? "dot" : "txt");
        FILE *file = mx_text_get(&text) ? fopen(path, "w") : NULL; /* a failed dump is not an error of the plan */
        if (file) {
            fputs(mx_text_get(&text), file);
            fclose(file);
        }
        mx_text_free(&text);
    }
}

mx_code mx_pipeline_run(mx_program *program, const char *name)
{
    static _Atomic int dumps;
    const int count = (int)(sizeof passes / sizeof *passes), dump = *mx_flags_get()->plan_dump ? dumps++ : 0;
    write_dump(program, name, dump, 0, "built");
    for (int i = 0; i < count; i++) {
        if (!mx_program_can(program, passes[i].needs))
            continue;
        mx_code code = passes[i].run(program);
#if MX_CHECKED
        if (!code)
            code = mx_program_verify(program, passes[i].name);
#endif
        if (code)
            return mx_has_error() ? mx_error_code() : mx_fail(code, "plan: pass %s ran out of memory", passes[i].name);
        write_dump(program, name, dump, i + 1, passes[i].name);
    }
    return MX_OK;
}
