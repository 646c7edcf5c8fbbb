/* Writes the inputs that the fuzzers start from: small valid files by our own writers.
 *
 *     fuzz_seeds FOLDER      FOLDER/NAME/... for every fuzz target NAME
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <gluon.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "../ndarray/hdf5_files.h"

static const char *folder;

/* FOLDER/target/name; the folder exists afterwards.  Lives until the next call. */
static const char *path_of(const char *target, const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/%s", folder, target, name);
    return path;
}

/* A file with a leading byte, which chooses the reader. */
static void prefixed(const char *target, const char *name, char choice, const char *from)
{
    int64_t size = 0;
    char *bytes = mx_file_read(from, 1 << 20, &size), all[1 << 16];
    if (bytes && size + 1 <= (int64_t)sizeof all) {
        all[0] = choice;
        memcpy(all + 1, bytes, (size_t)size);
        mx_file_write(path_of(target, name), all, size + 1);
    }
    mx_free(bytes, bytes ? (size_t)size + 1 : 0);
}

static void text(const char *target, const char *name, const char *content)
{
    mx_file_write(path_of(target, name), content, (int64_t)strlen(content));
}

static void arrays(void)
{
    mx_array *x = mx_arange(.start = 0, .stop = 6),
             *y = mx_cast(mx_reshape(x, .shape = MX_DIMS(2, 3)), .dtype = MX_INT32);
    static const char *const names[] = {"x", "y"}, *const files[] = {"a.params", "a.npz", "a.safetensors"};
    for (int i = 0; i < 3; i++)
        mx_save(path_of("arrays", files[i]), MX_ARRAYS(x, y), names);
    mx_save_npy(path_of("arrays", "a.npy"), y);
}

static void hdf5(void)
{
    hdf5_bytes b;
    hdf5_old(&b);
    mx_file_write(path_of("hdf5", "old.h5"), b.bytes, b.size);
    mx_file_write(path_of("arrays", "a.h5"), b.bytes, b.size);
    hdf5_new(&b);
    mx_file_write(path_of("hdf5", "new.h5"), b.bytes, b.size);
}

static void images(void)
{
    static const char *const formats[] = {".png", ".jpg", ".ppm", ".pgm"};
    for (int i = 0; i < 4; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%s", formats[i]);
        mx_array *pixels = mx_cast(mx_random_uniform(.low = 0, .high = 255, .shape = MX_DIMS(5, 7, i == 3 ? 1 : 3)),
                                   .dtype = MX_UINT8);
        mx_imwrite(pixels, path_of("image", name));
    }
}

static void records(void)
{
    mx_record_writer *out = mx_record_writer_open(path_of("record", "a.rec"), NULL);
    for (int i = 0; i < 3; i++) {
        mx_array *record = mx_record_pack((mx_record_header){.label = 2}, NULL, 0, "\n#\327\316abcdefg", 5 + 2 * i);
        mx_record_write(out, NULL, mx_array_data(record), mx_size(record));
    }
    mx_record_writer_close(out);
}

static void networks(void)
{
    mx_block *net = mx_hybrid_sequential(mx_conv2d(4, MX_DIMS(3, 3), .activation = "relu"), mx_batch_norm(),
                                         mx_max_pool2d(), mx_dense(3));
    mx_initialize(net, NULL, mx_cpu(0));
    mx_array *x = mx_ones(.shape = MX_DIMS(2, 3, 8, 8));
    mx_call(net, x);
    mx_symbol_save(mx_trace(net, x), path_of("symbol", "a.json"));
    mx_export_onnx_block(net, path_of("onnx", "a.onnx"), 17, MX_ARRAYS(x));
}

static void states(void)
{
    static const char *const names[] = {"sgd", "adam", "ftrl", "rmsprop", "nag", "lamb"};
    char file[4096];
    snprintf(file, sizeof file, "%s/states.tmp", folder);
    for (int i = 0; i < 6; i++) {
        mx_updater *updater = mx_updater_new(mx_optimizer_new(names[i], NULL));
        mx_array *w = mx_ones(.shape = MX_DIMS(2, 3)), *g = mx_ones(.shape = MX_DIMS(2, 3));
        mx_updater_update(updater, mx_id_number(0), g, w);
        if (mx_updater_save(updater, file) == MX_OK)
            prefixed("states", names[i], (char)i, file);
    }
    remove(file);
}

static void words(void)
{
    text("attributes", "pads", "\1\1kernel=(3, 3), pad=(1, 1), num_filter=8");
    text("attributes", "axis", "\2\2axis=-1, dtype=float16, keepdims=True, act_type=relu");
    text("cli", "predict", "\1model\n--top\n5\n--shape\ndata=1,3,224,224\n--mean\n0.5,0.25");
    text("cli", "run", "\7-n\n2\n--\npython\nx.py");
}

int main(int argc, char **argv)
{
    MX_SCOPE;
    if (argc != 2)
        return fprintf(stderr, "usage: fuzz_seeds FOLDER\n"), 2;
    folder = argv[1];
    mkdir(folder, 0777);
    arrays(), hdf5(), images(), records(), networks(), states(), words();
    mx_file_write(path_of("text", "idx"), "\0\0\0\x08\x02\0\0\0\x02\0\0\0\x02\x01\x02\x03\x04", 17);
    text("text", "csv",
         "\x01"
         "1,2.5,-3e2\n4,nan,6\n");
    text("text", "libsvm",
         "\x02"
         "1 0:2 3:1.5\n-1 7:1\n");
    text("text", "index",
         "\x03"
         "0\t0\n1\t24\n");
    text(
        "text", "tokenizer",
        "\4{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\", [\"ab\", \"a\"]]}, "
        "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}, \"added_tokens\": [{\"id\": 3, \"content\": \"aba\"}]}");
    mx_file_write(path_of("call", "zeros"), (char[64]){0}, 64);
    return mx_check("fuzz_seeds");
}
