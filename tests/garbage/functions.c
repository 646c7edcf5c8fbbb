/* Running calls of public functions (see functions.h).  SPDX-License-Identifier: Apache-2.0 */
#include "functions.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arguments.h"
#include "base/error.h"
#include "outcome.h"

/* What a call may have changed for the thread or the process. */
static void restore(mx_limits limits)
{
    mx_set_interrupt(NULL);
    mx_limits_set(limits);
    mx_set_check(false);
    mx_set_recording(false), mx_set_training(false);
    mx_set_np_shape(false), mx_set_np_array(false), mx_set_np_default_dtype(false);
    mx_set_current_context(mx_cpu(0));
    mx_profiler_run(false);
    mx_amp_init(MX_FLOAT32);
    mx_control_name(NULL);
    if (mx_num_threads() != 2) /* changing it restarts threads */
        mx_set_num_threads(2);
    mx_error_clear();
}

const char *garbage_function_run(const garbage_function *f, garbage_dice *d)
{
    const mx_limits limits = mx_limits_get();
    const char *finding = NULL;
    garbage_give_anew(false);
    mx_error_clear();
    mx_scoped() {
        f->call(d);
        if (garbage_gave_bad() && !mx_error_code())
            finding = outcome_wrong("an object of another kind is no error");
        restore(limits);
    }
    garbage_memory_free();
    return finding;
}

/* ---- files ---------------------------------------------------------------------------------------------------------- */

static char folder[64];

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    if (file)
        fputs(text, file), fclose(file);
}

bool garbage_folder_enter(void)
{
    MX_SCOPE;
    strcpy(folder, "/tmp/garbage-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder))
        return false;
    mx_array *x = mx_array_from(MX_DIMS(2, 2), MX_FLOAT32, (float[]){1, 2, 3, 4});
    mx_array *image = mx_array_from(MX_DIMS(2, 2, 3), MX_UINT8, "abcdefghijkl");
    mx_save("a.params", MX_ARRAYS(x), (const char *const[]){"w"});
    mx_save("a.npy", MX_ARRAYS(x), NULL);
    mx_imwrite(image, "a.png");
    write_text("a.lst", "0\t1\ta.png\n1\t0\tmissing.png\n");
    write_text("t.json",
               "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"x\": 1, \"ax\": 2}, \"merges\": [\"a x\"]}, "
               "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}");
    mx_record_writer *writer = mx_record_writer_open("a.rec", "a.idx");
    mx_record_write(writer, "0", "some bytes", 10);
    mx_record_writer_close(writer);
    mx_array *y = mx_call(mx_dense(2), mx_variable("data"));
    mx_symbol_save(mx_symbol_of(MX_ARRAYS(y)), "a-symbol.json");
    mx_block *net = mx_dense(2, .in_units = 3);
    mx_initialize(net, NULL, mx_cpu(0));
    mx_hybridize(net);
    mx_export_like(net, "net", 0, MX_ARRAYS(mx_empty(MX_DIMS(2, 3), MX_FLOAT32, mx_cpu(0))));
    mx_export_onnx_block(net, "net.onnx", 17, MX_ARRAYS(mx_empty(MX_DIMS(2, 3), MX_FLOAT32, mx_cpu(0))));
    const bool made = !mx_error_code();
    mx_error_clear();
    return made;
}

static void remove_files(const char *path)
{
    DIR *listing = opendir(path);
    for (struct dirent *e; listing && (e = readdir(listing));) {
        char inner[600];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (unlink(inner))
            remove_files(inner);
    }
    if (listing)
        closedir(listing);
    rmdir(path);
}

void garbage_folder_leave(void)
{
    if (!chdir("/tmp") && folder[0])
        remove_files(folder);
}
