/* The folder of trained parameters.
 *
 * A file is named NAME-HASH.params, where HASH is the beginning of its SHA-1 sum; so it can be checked by its name.
 * Nothing is downloaded in C (the Python package does that): a missing file is an error that says which file to put where.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/flags.h"
#include "base/text.h"
#include "gluon/zoo.h"
#include "gluon/zoo/zoo.h"

/* ---- SHA-1 (FIPS 180-4) --------------------------------------------------------------------------------------- */

typedef struct sha1 {
    uint32_t state[5];
    unsigned char block[64];
    uint64_t bytes; /* so far */
} sha1;

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

static void sha1_block(sha1 *s)
{
    static const uint32_t constants[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    uint32_t w[80], v[5];
    for (int i = 0; i < 80; i++)
        w[i] = i < 16 ? (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
                            (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3]
                      : rotate(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    memcpy(v, s->state, sizeof v);
    for (int i = 0; i < 80; i++) {
        const uint32_t b = v[1], c = v[2], d = v[3];
        const uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 || i >= 60 ? b ^ c ^ d : (b & c) | (b & d) | (c & d);
        const uint32_t next = rotate(v[0], 5) + f + v[4] + constants[i / 20] + w[i];
        v[4] = d, v[3] = c, v[2] = rotate(b, 30), v[1] = v[0], v[0] = next;
    }
    for (int i = 0; i < 5; i++)
        s->state[i] += v[i];
}

static void sha1_add(sha1 *s, const unsigned char *data, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        s->block[s->bytes++ % 64] = data[i];
        if (s->bytes % 64 == 0)
            sha1_block(s);
    }
}

/* The first eight digits of a file's sum; false: it cannot be read. */
static bool sum_of(const char *path, char digits[9])
{
    sha1 s = {.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}};
    unsigned char part[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return mx_fail(MX_ERR_FILE, "mx_model_file: cannot read '%s'", path), false;
    for (size_t n; (n = fread(part, 1, sizeof part, file)) > 0;)
        sha1_add(&s, part, n);
    fclose(file);
    const uint64_t bits = s.bytes * 8;
    sha1_add(&s, (const unsigned char[]){0x80}, 1);
    while (s.bytes % 64 != 56)
        sha1_add(&s, (const unsigned char[]){0}, 1);
    for (int i = 56; i >= 0; i -= 8)
        sha1_add(&s, (const unsigned char[]){(unsigned char)(bits >> i)}, 1);
    snprintf(digits, 9, "%08x", (unsigned)s.state[0]);
    return true;
}

/* ---- the folder ------------------------------------------------------------------------------------------------ */

/* $MXNET_HOME/models, ~/.mxnet/models, or root with a leading ~ replaced; of the scope. */
static const char *folder_of(const char *root)
{
    mx_text path = {0};
    const char *home = getenv("HOME");
    if (root)
        mx_text_print(&path, "%s%s", root[0] == '~' && home ? home : "", root[0] == '~' && home ? root + 1 : root);
    else if (*mx_flags_get()->home)
        mx_text_print(&path, "%s/models", mx_flags_get()->home);
    else
        mx_text_print(&path, "%s/.mxnet/models", home ? home : ".");
    return mx_text_to_scope(&path);
}

/* How well a file matches the parameters of `name`: 3 published, 2 with another sum, 1 without a sum, 0 not at all.
 * digits: the sum in its name, "" if there is none. */
static int rank_of(const char *file, const char *name, const char *hash, char digits[9])
{
    const size_t n = strlen(name);
    *digits = 0;
    if (strncmp(file, name, n))
        return 0;
    if (!strcmp(file + n, ".params"))
        return 1;
    if (file[n] != '-' || strlen(file + n) != strlen("-12345678.params") || strcmp(file + n + 9, ".params") ||
        strspn(file + n + 1, "0123456789abcdef") != 8)
        return 0;
    memcpy(digits, file + n + 1, 8);
    digits[8] = 0;
    return hash && !strncmp(digits, hash, 8) ? 3 : 2;
}

typedef struct candidate {
    const char *path; /* of the scope; NULL: none */
    char digits[9];
    int rank;
    time_t changed;
} candidate;

static candidate best_in(const char *folder, const char *name, const char *hash)
{
    candidate best = {0};
    DIR *list = opendir(folder);
    for (struct dirent *entry; list && (entry = readdir(list)) != NULL;) {
        candidate one = {0};
        struct stat about;
        mx_text path = {0};
        if (!(one.rank = rank_of(entry->d_name, name, hash, one.digits)))
            continue;
        mx_text_print(&path, "%s/%s", folder, entry->d_name);
        one.path = mx_text_to_scope(&path);
        if (!one.path || stat(one.path, &about) || !S_ISREG(about.st_mode))
            continue;
        one.changed = about.st_mtime;
        if (one.rank > best.rank || (one.rank == best.rank && one.changed > best.changed))
            best = one;
    }
    if (list)
        closedir(list);
    return best;
}

static const char *fail_missing(const char *name, const char *hash, const char *folder)
{
    const char *repository = mx_flags_get()->repository;
    const int length = (int)strlen(repository) - (repository[strlen(repository) - 1] == '/');
    if (!hash)
        return mx_fail_null(MX_ERR_FILE,
                            "model %s: there is no '%s.params' in '%s' (no trained parameters of it were "
                            "published); put a file written by mx_save_parameters there, or give another folder",
                            name, name, folder);
    return mx_fail_null(
        MX_ERR_FILE,
        "model %s: there is no '%s-%.8s.params' in '%s', and nothing is downloaded. On a machine "
        "with internet access, fetch %.*s/gluon/models/%s-%.8s.zip and unpack it into that folder (or give another one); "
        "your own parameters, written by save_parameters, are found there as '%s.params'",
        name, name, hash, folder, length, repository, name, hash, name);
}

const char *mx_model_file(const char *name, const char *root)
{
    const mx_model_row *row = mx_model_find(name);
    const char *folder = row ? folder_of(root) : NULL;
    if (!folder)
        return NULL;
    const candidate best = best_in(folder, row->name, row->hash);
    if (!best.path)
        return mx_has_error() ? NULL : fail_missing(row->name, row->hash, folder);
    char sum[9];
    if (*best.digits && (!sum_of(best.path, sum) || strcmp(sum, best.digits)))
        return mx_fail_null(MX_ERR_FILE,
                            "model %s: '%s' is damaged or not what its name says: its SHA-1 sum begins with "
                            "%s, the name says %s; replace it, or name it %s.params if it is your own file",
                            row->name, best.path, sum, best.digits, row->name);
    return best.path;
}
