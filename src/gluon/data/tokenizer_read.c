/* Files of a tokenizer: vocab.json and merges.txt, or one tokenizer.json.
 *
 *     vocab.json       {"!": 0, ..., "\u0120the": 262, ...}      a token as letters and its number
 *     merges.txt       #version: 0.2                             then a line for every two tokens that may become one,
 *                      \u0120 t                                  the most urgent first
 *     tokenizer.json   {"model": {"vocab": {...}, "merges": [...]}, "added_tokens": [{"id", "content"}], ...}
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/file.h"
#include "base/json.h"
#include "base/unicode.h"
#include "gluon/data/tokenizer.h"

enum { MOST_BYTES = 1 << 26, MOST_GAPS = 1 << 16 };

/* ---- bytes as letters ---------------------------------------------------------------------------------------------- */

static bool is_visible(uint32_t byte) { return (byte > 32 && byte < 127) || (byte > 160 && byte < 256 && byte != 173); }

/* The byte that a letter stands for; -1: none. */
static int byte_of(uint32_t letter)
{
    int invisible = 256;
    if (letter < 256)
        return is_visible(letter) ? (int)letter : -1;
    for (int byte = 0; byte < 256; byte++)
        if (!is_visible((uint32_t)byte) && invisible++ == (int)letter)
            return byte;
    return -1;
}

/* Appends the bytes of a token; one that has other letters, as special tokens may, is a plain text. */
static bool append_bytes(mx_tokenizer *t, const char *letters)
{
    const size_t n = strlen(letters);
    const unsigned char *at = (const unsigned char *)letters;
    const int64_t start = t->bytes.length;
    int length;
    if (!mx_vec_reserve(&t->bytes, start + (int64_t)n))
        return false;
    for (size_t i = 0; i < n; i += (size_t)length) {
        const int byte = byte_of(mx_utf8_read(at + i, n - i, &length));
        if (byte < 0) {
            memcpy(t->bytes.items + start, letters, n);
            t->bytes.length = start + (int64_t)n;
            return true;
        }
        t->bytes.items[t->bytes.length++] = (char)byte;
    }
    return true;
}

/* ---- vocabulary ----------------------------------------------------------------------------------------------------- */

/* The member's number for the token. */
static mx_code add_token(mx_tokenizer *t, const char *letters, const mx_json *value)
{
    int64_t number;
    if (!letters || !*letters || !mx_json_int(value, &number)) {
        if (!mx_has_error())
            mx_json_fail(value, "an empty token");
        return mx_error_code();
    }
    if (number < 0 || number >= INT32_MAX) {
        mx_json_fail(value, "token '%.60s' has number %lld, wanted 0 to %d", letters, (long long)number, INT32_MAX - 1);
        return mx_error_code();
    }
    return mx_dict_set_number(&t->numbers, letters, number) ? MX_OK : mx_error_code();
}

static mx_code read_vocabulary(mx_tokenizer *t, const mx_json *vocabulary)
{
    mx_code code = vocabulary ? MX_OK : mx_error_code();
    for (int64_t i = 0; !code && i < mx_json_count(vocabulary); i++)
        code = add_token(t, mx_json_key(mx_json_at(vocabulary, i)), mx_json_at(vocabulary, i));
    return code;
}

/* letters (size): of every number; NULL: a gap */
static mx_code order_tokens(const mx_tokenizer *t, const char **letters)
{
    for (int64_t i = 0; i < t->numbers.length; i++) {
        const mx_dict_entry *e = &t->numbers.entries[i];
        if (letters[e->number])
            return mx_fail(MX_ERR_FILE, "the tokens '%.60s' and '%.60s' have the number %lld", letters[e->number],
                           e->key, (long long)e->number);
        letters[e->number] = e->key;
    }
    return MX_OK;
}

/* `bytes` and `begin` from `numbers`. */
static mx_code spell_tokens(mx_tokenizer *t)
{
    int64_t size = 0;
    for (int64_t i = 0; i < t->numbers.length; i++)
        size = t->numbers.entries[i].number >= size ? t->numbers.entries[i].number + 1 : size;
    if (size > t->numbers.length + MOST_GAPS)
        return mx_fail(MX_ERR_FILE, "the largest token is %lld, but there are %lld of them", (long long)size - 1,
                       (long long)t->numbers.length);
    const size_t bytes = (size_t)(size + 1) * sizeof(char *);
    const char **letters = mx_alloc_zero(bytes);
    mx_code code = letters ? order_tokens(t, letters) : MX_ERR_MEMORY;
    for (int64_t i = 0; i < size && !code; i++)
        if (!mx_vec_push(&t->begin, t->bytes.length) || (letters[i] && !append_bytes(t, letters[i])))
            code = MX_ERR_MEMORY;
    if (!code && !mx_vec_push(&t->begin, t->bytes.length))
        code = MX_ERR_MEMORY;
    mx_free(letters, bytes);
    return code;
}

static void find_single_bytes(mx_tokenizer *t)
{
    for (int byte = 0; byte < 256; byte++)
        t->single[byte] = -1;
    for (int64_t i = 0; i + 1 < t->begin.length; i++)
        if (t->begin.items[i + 1] - t->begin.items[i] == 1)
            t->single[(unsigned char)t->bytes.items[t->begin.items[i]]] = (int32_t)i;
}

/* ---- merges ---------------------------------------------------------------------------------------------------------- */

static mx_token_merge *slot_of(const mx_tokenizer *t, uint64_t pair)
{
    uint64_t hash = pair * UINT64_C(0x9e3779b97f4a7c15);
    int64_t i = (int64_t)(hash >> 20) & (t->slots - 1);
    while (t->merges[i].pair && t->merges[i].pair != pair)
        i = (i + 1) & (t->slots - 1);
    return &t->merges[i];
}

static uint64_t pair_of(int32_t left, int32_t right) { return ((uint64_t)left << 32 | (uint64_t)right) + 1; }

const mx_token_merge *mx_tokenizer_merge(const mx_tokenizer *t, int32_t left, int32_t right)
{
    const mx_token_merge *found = t->slots ? slot_of(t, pair_of(left, right)) : NULL;
    return found && found->pair ? found : NULL;
}

static mx_code make_room(mx_tokenizer *t, int64_t merges)
{
    int64_t slots = 16;
    while (slots < 2 * merges)
        slots *= 2;
    t->merges = mx_alloc_zero((size_t)slots * sizeof *t->merges);
    t->slots = t->merges ? slots : 0;
    return t->merges ? MX_OK : MX_ERR_MEMORY;
}

/* Two tokens, each given by its letters and their number. */
static mx_code add_merge(mx_tokenizer *t, const char *left, size_t n_left, const char *right, size_t n_right)
{
    char both[512], one[512];
    if (n_left + n_right >= sizeof both)
        return mx_fail(MX_ERR_FILE, "merge %lld: the token has %zu bytes, wanted fewer than %zu",
                       (long long)t->n_merges, n_left + n_right, sizeof both);
    snprintf(both, sizeof both, "%.*s%.*s", (int)n_left, left, (int)n_right, right);
    snprintf(one, sizeof one, "%.*s", (int)n_left, left);
    const int64_t a = mx_dict_get_number(&t->numbers, one, -1), b = mx_dict_get_number(&t->numbers, both + n_left, -1),
                  merged = mx_dict_get_number(&t->numbers, both, -1);
    if (a < 0 || b < 0 || merged < 0)
        return mx_fail(MX_ERR_FILE, "merge %lld of '%.60s' and '%.60s': %s is not in the vocabulary",
                       (long long)t->n_merges, one, both + n_left,
                       a < 0   ? "the first"
                       : b < 0 ? "the second"
                               : "the token of both");
    mx_token_merge *slot = slot_of(t, pair_of((int32_t)a, (int32_t)b));
    if (!slot->pair) /* of two alike the first counts */
        *slot = (mx_token_merge){pair_of((int32_t)a, (int32_t)b), (int32_t)t->n_merges, (int32_t)merged};
    t->n_merges++;
    return MX_OK;
}

/* "left right" */
static mx_code add_merge_line(mx_tokenizer *t, const char *line, size_t n)
{
    const char *space = memchr(line, ' ', n);
    const size_t left = space ? (size_t)(space - line) : 0;
    if (!left || left + 1 >= n || memchr(space + 1, ' ', n - left - 1))
        return mx_fail(MX_ERR_FILE, "merge %lld: '%.*s', wanted two tokens and a space between them",
                       (long long)t->n_merges, (int)(n < 60 ? n : 60), line);
    return add_merge(t, line, left, space + 1, n - left - 1);
}

static mx_code read_merge_lines(mx_tokenizer *t, const char *text)
{
    int64_t lines = 1;
    for (const char *at = text; (at = strchr(at, '\n')); at++)
        lines++;
    mx_code code = make_room(t, lines);
    for (const char *line = text, *end; *line && !code; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        const size_t n = (size_t)(end - line) - (end > line && end[-1] == '\r');
        if (n && strncmp(line, "#version", 8))
            code = add_merge_line(t, line, n);
    }
    return code;
}

/* A rule: "left right", or the two apart. */
static mx_code read_merge(mx_tokenizer *t, const mx_json *item)
{
    if (mx_json_kind_of(item) != MX_JSON_ARRAY) {
        const char *both = mx_json_text(item);
        return both ? add_merge_line(t, both, strlen(both)) : mx_error_code();
    }
    if (mx_json_count(item) != 2) {
        mx_json_fail(item, "wanted two texts, found an array of %lld", (long long)mx_json_count(item));
        return mx_error_code();
    }
    const char *left = mx_json_text(mx_json_at(item, 0)), *right = left ? mx_json_text(mx_json_at(item, 1)) : NULL;
    return right ? add_merge(t, left, strlen(left), right, strlen(right)) : mx_error_code();
}

static mx_code read_merge_list(mx_tokenizer *t, const mx_json *list)
{
    mx_code code = list ? make_room(t, mx_json_count(list)) : mx_error_code();
    for (int64_t i = 0; !code && i < mx_json_count(list); i++)
        code = read_merge(t, mx_json_at(list, i));
    return code;
}

/* ---- files ------------------------------------------------------------------------------------------------------------ */

static bool is_type(const mx_json *part, const char *wanted)
{
    const mx_json *type = mx_json_get(part, "type");
    return mx_json_kind_of(type) == MX_JSON_TEXT && !strcmp(mx_json_text(type), wanted);
}

static bool truth(const mx_json *part, const char *name, bool otherwise)
{
    bool found = otherwise;
    const mx_json *value = mx_json_get(part, name);
    return mx_json_kind_of(value) == MX_JSON_BOOL && mx_json_bool(value, &found) ? found : otherwise;
}

/* What we do not do is refused: other tokens than those of the file's author would follow. */
static mx_code check_kind(const mx_json *root)
{
    const mx_json *model = mx_json_get(root, "model"), *split = mx_json_get(root, "pre_tokenizer");
    const bool bytes = is_type(split, "ByteLevel") && truth(split, "use_regex", true);
    if (!is_type(model, "BPE") || !bytes || mx_json_kind_of(mx_json_get(root, "normalizer")) != MX_JSON_NULL) {
        mx_json_fail(root, "wanted a model of type BPE, a pre_tokenizer of type ByteLevel and no normalizer");
        return mx_error_code();
    }
    return MX_OK;
}

static mx_code read_one_file(mx_tokenizer *t, const mx_json *root)
{
    mx_code code = check_kind(root);
    const mx_json *model = mx_json_get(root, "model"), *added = mx_json_get(root, "added_tokens");
    code = code ? code : read_vocabulary(t, mx_json_member(model, "vocab", MX_JSON_OBJECT));
    for (int64_t i = 0; !code && i < mx_json_count(added); i++) {
        const mx_json *token = mx_json_at(added, i);
        code = add_token(t, mx_json_text(mx_json_member(token, "content", MX_JSON_TEXT)),
                         mx_json_member(token, "id", MX_JSON_NUMBER));
    }
    t->leading_space = truth(mx_json_get(root, "pre_tokenizer"), "add_prefix_space", false);
    code = code ? code : read_merge_list(t, mx_json_member(model, "merges", MX_JSON_ARRAY));
    return code;
}

/* What `use` makes of a JSON file; errors name the file. */
static mx_code with_json(mx_tokenizer *t, const char *path, mx_code (*use)(mx_tokenizer *t, const mx_json *root))
{
    int64_t size;
    char *text = mx_file_read(path, MOST_BYTES, &size);
    const char *before = mx_error_context(path);
    mx_json *root = text ? mx_json_parse(text, (size_t)size) : NULL;
    const mx_code code = root ? use(t, root) : mx_error_code();
    mx_error_context(before);
    mx_json_free(root);
    mx_free(text, text ? (size_t)size + 1 : 0);
    return code;
}

static mx_code read_merges(mx_tokenizer *t, const char *path)
{
    int64_t size;
    char *text = mx_file_read(path, MOST_BYTES, &size);
    const char *before = mx_error_context(path);
    const mx_code code = text ? read_merge_lines(t, text) : mx_error_code();
    mx_error_context(before);
    mx_free(text, text ? (size_t)size + 1 : 0);
    return code;
}

static mx_code finish(mx_tokenizer *t)
{
    const mx_code code = spell_tokens(t);
    if (!code)
        find_single_bytes(t);
    return code;
}

mx_code mx_tokenizer_read(mx_tokenizer *t, const char *path)
{
    const size_t n = strlen(path), bytes = n + sizeof "/merges.txt";
    if (n > 5 && !strcmp(path + n - 5, ".json")) {
        const mx_code code = with_json(t, path, read_one_file);
        return code ? code : finish(t);
    }
    char *file = mx_alloc(bytes);
    mx_code code = file ? MX_OK : MX_ERR_MEMORY;
    if (!code) {
        snprintf(file, bytes, "%s/vocab.json", path);
        code = with_json(t, file, read_vocabulary);
    }
    if (!code) {
        snprintf(file, bytes, "%s/merges.txt", path);
        code = read_merges(t, file);
    }
    mx_free(file, bytes);
    return code ? code : finish(t);
}
