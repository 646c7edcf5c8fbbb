/* The table of image formats, and PGM and PPM (see image.h).  SPDX-License-Identifier: Apache-2.0 */
#include "base/image.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/error.h"
#include "gluon/limits.h"

bool mx_image_fail(const mx_image_file *file, const char *format, const char *message)
{
    mx_fail(MX_ERR_FILE, "%s: %s: %s", file->name, format, message);
    return false;
}

bool mx_image_missing(const char *format, const char *package)
{
    mx_fail(
        MX_ERR_UNSUPPORTED,
        "this build cannot read or write %s images: install the library (Debian: apt-get install %s) and build again",
        format, package);
    return false;
}

/* ---- PGM and PPM: "P5" or "P6", width, height, 255, one white space, pixels --------------------------------- */

typedef struct pnm_header {
    int channels;
    int64_t width, height, offset; /* of the first pixel */
} pnm_header;

static bool pnm_matches(const unsigned char *bytes, int64_t size)
{
    return size > 2 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6') && strchr(" \t\r\n#", bytes[2]);
}

/* The next number after white space and comments; -1 if there is none. */
static int64_t pnm_number(const mx_image_file *file, int64_t *at)
{
    int64_t i = *at, value = 0;
    while (i < file->size && strchr(" \t\r\n#", file->bytes[i]) && file->bytes[i])
        if (file->bytes[i++] == '#')
            while (i < file->size && file->bytes[i] != '\n')
                i++;
    const int64_t first = i;
    while (i < file->size && file->bytes[i] >= '0' && file->bytes[i] <= '9' && value < 1000000)
        value = 10 * value + (file->bytes[i++] - '0');
    *at = i;
    return i > first ? value : -1;
}

static bool pnm_header_read(const mx_image_file *file, pnm_header *h)
{
    int64_t at = 2;
    h->channels = file->bytes[1] == '5' ? 1 : 3;
    h->width = pnm_number(file, &at);
    h->height = pnm_number(file, &at);
    const int64_t most = pnm_number(file, &at);
    h->offset = at + 1;
    if (h->width < 1 || h->height < 1 || most < 1)
        return mx_image_fail(file, "PNM", "the header is damaged");
    if (most != 255)
        return mx_image_fail(file, "PNM", "only files with 255 levels are read");
    if (h->offset > file->size || h->width * h->height > (file->size - h->offset) / h->channels)
        return mx_image_fail(file, "PNM", "the file is truncated");
    return true;
}

static bool pnm_probe(const mx_image_file *file, mx_image_info *info)
{
    pnm_header h;
    if (!pnm_header_read(file, &h))
        return false;
    info->height = h.height, info->width = h.width, info->channels = h.channels;
    return true;
}

static bool pnm_decode(const mx_image_file *file, const mx_image_pixels *to)
{
    pnm_header h;
    if (!pnm_header_read(file, &h))
        return false;
    const unsigned char *from = file->bytes + h.offset;
    for (int64_t i = 0; i < h.width * h.height; i++, from += h.channels) {
        unsigned char *pixel = to->data + i * to->channels;
        const int red = from[0], green = from[h.channels / 3], blue = from[h.channels / 3 * 2];
        if (to->channels == 1)
            pixel[0] = h.channels == 1 ? from[0] : mx_image_luma(red, green, blue);
        else
            pixel[0] = (unsigned char)(to->rgb ? red : blue), pixel[1] = (unsigned char)green,
            pixel[2] = (unsigned char)(to->rgb ? blue : red);
    }
    return true;
}

static bool pnm_encode(const mx_image_pixels *from, int quality, mx_text *out)
{
    (void)quality;
    mx_text_print(out, "P%c\n%lld %lld\n255\n", from->channels == 1 ? '5' : '6', (long long)from->width,
                  (long long)from->height);
    for (int64_t i = 0; i < from->width * from->height; i++) {
        const unsigned char *pixel = from->data + i * from->channels;
        const unsigned char swapped[3] = {pixel[from->channels - 1], pixel[from->channels / 2], pixel[0]};
        mx_text_add_bytes(out, from->rgb ? pixel : swapped, (size_t)from->channels);
    }
    return !out->failed;
}

static const mx_image_codec pnm_codec = {"PNM", ".pgm .ppm", pnm_matches, pnm_probe, pnm_decode, pnm_encode,
                                           1};

/* ---- the table ---------------------------------------------------------------------------------------------- */

static const mx_image_codec *const codecs[] = {&mx_jpeg_codec, &mx_png_codec, &pnm_codec};
#define CODECS (sizeof codecs / sizeof *codecs)

static const mx_image_codec *codec_of(const mx_image_file *file)
{
    if (!file->bytes || file->size < 1)
        return mx_fail_null(MX_ERR_FILE, "%s: there are no bytes to decode as an image", file->name);
    for (size_t i = 0; i < CODECS; i++)
        if (codecs[i]->matches(file->bytes, file->size))
            return codecs[i];
    return mx_fail_null(MX_ERR_FILE, "%s: is not an image that can be read (JPEG, PNG, PGM or PPM)", file->name);
}

static int orientation_of(const mx_image_file *file, const mx_image_codec *codec)
{
    return file->upright && codec == &mx_jpeg_codec ? mx_image_orientation(file->bytes, file->size) : 1;
}

static void exchange(int64_t *a, int64_t *b)
{
    const int64_t kept = *a;
    *a = *b, *b = kept;
}

bool mx_image_probe(const mx_image_file *file, mx_image_info *info)
{
    const mx_image_codec *codec = codec_of(file);
    *info = (mx_image_info){0};
    if (!codec || !codec->probe(file, info))
        return false;
    info->format = codec->format;
    if (info->height < 1 || info->width < 1)
        return mx_image_fail(file, codec->format, "the image has no pixels");
    if (info->height > mx_limits_get().pixels / info->width)
        return mx_image_fail(file, codec->format, "the image has too many pixels: GLUON_LIMIT_PIXELS is exceeded");
    if (info->height * info->width / codec->density > file->size)
        return mx_image_fail(file, codec->format,
                             "the file is truncated or damaged: it has too few bytes for an image of this size");
    if (orientation_of(file, codec) >= 5)
        exchange(&info->height, &info->width);
    return true;
}

/* Decodes as stored, then applies the orientation. */
static bool decode_turned(const mx_image_file *file, const mx_image_pixels *to, int orientation)
{
    const size_t bytes = (size_t)to->height * (size_t)to->width * (size_t)to->channels;
    mx_image_pixels stored = *to;
    if (orientation >= 5)
        exchange(&stored.height, &stored.width);
    if (!(stored.data = mx_alloc(bytes)))
        return false;
    const bool fine = codec_of(file)->decode(file, &stored);
    if (fine)
        mx_image_turn(orientation, &stored, to);
    mx_free(stored.data, bytes);
    return fine;
}

bool mx_image_decode(const mx_image_file *file, const mx_image_pixels *to)
{
    mx_image_info info;
    if (!mx_image_probe(file, &info))
        return false;
    if (info.height != to->height || info.width != to->width || (to->channels == 4 && info.channels != 4))
        return mx_image_fail(file, info.format, "the image has an unexpected size");
    const mx_image_codec *codec = codec_of(file);
    const int orientation = orientation_of(file, codec);
    return orientation == 1 ? codec->decode(file, to) : decode_turned(file, to, orientation);
}

/* Whether a list of words ".jpg .jpeg" has this one, in any case. */
static bool has_word(const char *words, const char *word)
{
    const size_t length = strlen(word);
    for (const char *p = words; length && *p; p += strcspn(p, " "), p += strspn(p, " "))
        if (strcspn(p, " ") == length && !strncasecmp(p, word, length))
            return true;
    return false;
}

bool mx_image_encode(const mx_image_pixels *from, const char *format, int quality, mx_text *out)
{
    for (size_t i = 0; i < CODECS; i++)
        if (has_word(codecs[i]->suffixes, format))
            return codecs[i]->encode(from, quality, out);
    mx_fail(MX_ERR_ARGUMENT, "image: unknown format '%s'; supported: .jpg .jpeg .png .pgm .ppm", format);
    return false;
}
