/* gluon im2rec: lists of images, and record files of the images in lists.  SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

enum { MOST_SUFFIXES = 32 };

static void say(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static bool fraction(const cli_args *args, const char *name, double fallback, double *number)
{
    const char *text = cli_option_of(args, name);
    char *end = NULL;
    *number = text ? strtod(text, &end) : fallback;
    if (text && (end == text || *end || !(*number >= 0 && *number <= 1))) {
        cli_usage(args, "%s is '%s', expected a number from 0 to 1", name, text);
        return false;
    }
    return true;
}

/* "--exts .jpg,.png" or several times "--exts .jpg"; texts are split in `buffer`. */
static bool suffixes(const cli_args *args, char *buffer, size_t room, const char **exts)
{
    const char *text;
    int n = 0;
    size_t used = 0;
    for (int i = 0; (text = cli_option_at(args, "--exts", i)); i++) {
        const size_t length = strlen(text) + 1;
        if (used + length > room) {
            cli_usage(args, "--exts is too long");
            return false;
        }
        memcpy(buffer + used, text, length);
        for (char *word = strtok(buffer + used, ","); word && n < MOST_SUFFIXES; word = strtok(NULL, ","))
            exts[n++] = word;
        used += length;
    }
    exts[n] = NULL;
    return true;
}

static int run(const cli_args *args)
{
    struct mx_im2rec_args o = {MX_IM2REC_DEFAULTS, .report = say, .prefix = args->values[0], .root = args->values[1]};
    const char *exts[MOST_SUFFIXES + 1], *encoding = cli_option_of(args, "--encoding"),
                                         *color = cli_option_of(args, "--color");
    char buffer[1024];
    int64_t chunks, quality, threads;
    if (!cli_number(args, "--chunks", 1, 1, &chunks) || !cli_number(args, "--quality", 95, 0, &quality) ||
        !cli_number(args, "--num-thread", 1, 1, &threads) || !cli_number(args, "--resize", 0, 0, &o.resize) ||
        !fraction(args, "--train-ratio", 1, &o.train_ratio) || !fraction(args, "--test-ratio", 0, &o.test_ratio) ||
        !suffixes(args, buffer, sizeof buffer, exts))
        return CLI_USAGE;
    if (color && strcmp(color, "-1") && strcmp(color, "0") && strcmp(color, "1"))
        return cli_usage(args, "--color is '%s', expected -1, 0 or 1", color);
    o.chunks = (int)chunks, o.quality = (int)quality, o.num_thread = (int)threads;
    o.exts = *exts ? exts : NULL, o.color = color ? atoi(color) : 1, o.encoding = encoding ? encoding : ".jpg";
    o.recursive = cli_option_of(args, "--recursive"), o.shuffle = !cli_option_of(args, "--no-shuffle");
    o.pass_through = cli_option_of(args, "--pass-through"), o.center_crop = cli_option_of(args, "--center-crop");
    o.pack_label = cli_option_of(args, "--pack-label");
    return (cli_option_of(args, "--list") ? mx_im2rec_make_lists(&o) : mx_im2rec_make_records(&o)) ? CLI_FAILED
                                                                                                   : CLI_OK;
}

static const cli_option options[] = {
    {"--list", NULL, "make lists, else record files"},
    {"--exts", ".jpg,.png,...", "list: suffixes of images; may be repeated"},
    {"--chunks", "N", "list: number of lists"},
    {"--train-ratio", "FRACTION", "list: images in PREFIX_train.lst"},
    {"--test-ratio", "FRACTION", "list: images in PREFIX_test.lst; the others are in PREFIX_val.lst"},
    {"--recursive", NULL, "list: also look into folders; every folder with images is a class"},
    {"--no-shuffle", NULL, "list: keep the order of the names"},
    {"--pass-through", NULL, "records: take files as they are"},
    {"--resize", "N", "records: length of the shorter side"},
    {"--center-crop", NULL, "records: the largest square in the centre"},
    {"--quality", "N", "records: JPEG 1 to 100, PNG 0 to 9"},
    {"--num-thread", "N", "records: threads that read and write images"},
    {"--color", "N", "records: 1: three channels, 0: gray, -1: as stored"},
    {"--encoding", ".jpg|.png", "records: format of the images"},
    {"--pack-label", NULL, "records: all labels of a line, else the first"},
    {NULL, NULL, NULL},
};

const cli_command cli_im2rec = {
    "im2rec",
    "[--list] PREFIX ROOT [OPTIONS]",
    "Makes record files of images: first lists of them, then the files.\n"
    "With --list it writes PREFIX.lst, a line 'number TAB label TAB path' for every image in the folder ROOT; without it\n"
    "every list PREFIX*.lst becomes a .rec and an .idx file.",
    2,
    2,
    options,
    run};
