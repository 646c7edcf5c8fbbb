/* PNG through libpng.
 *
 * As for JPEG, the library's jump out of an error is confined to this file: every call into it happens between setjmp in
 * `guarded` and its return, and what must survive is in the caller's job.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/image.h"

#include "base/error.h"
#include "base/interrupt.h"

static bool matches(const unsigned char *bytes, int64_t size)
{
    static const unsigned char mark[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    for (int i = 0; i < 8; i++)
        if (size <= i || bytes[i] != mark[i])
            return false;
    return true;
}

#ifndef HAVE_PNG

static bool no_probe(const mx_image_file *file, mx_image_info *info)
{
    return (void)file, (void)info, mx_image_missing("PNG", "libpng-dev");
}
static bool no_decode(const mx_image_file *file, const mx_image_pixels *to)
{
    return (void)file, (void)to, mx_image_missing("PNG", "libpng-dev");
}
static bool no_encode(const mx_image_pixels *from, int quality, mx_text *out)
{
    return (void)from, (void)quality, (void)out, mx_image_missing("PNG", "libpng-dev");
}
const mx_image_codec mx_png_codec = {"PNG", ".png", matches, no_probe, no_decode, no_encode, 1};

#else

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <png.h>

typedef struct job {
    jmp_buf back;
    char message[128];
    png_structp png;
    png_infop header;
    const mx_image_file *file;
    int64_t position;              /* bytes read */
    mx_image_info *info;           /* non-NULL: read only the header */
    const mx_image_pixels *pixels; /* to be read or written */
    int level;                     /* of compression; -1: the default */
    mx_text *out;
} job;

static void give_up(png_structp png, png_const_charp message)
{
    job *j = png_get_error_ptr(png);
    snprintf(j->message, sizeof j->message, "%s", message);
    longjmp(j->back, 1);
}
static void warn(png_structp png, png_const_charp message) { (void)png, (void)message; }

static bool guarded(job *j, void (*body)(job *j))
{
    if (setjmp(j->back))
        return false;
    body(j);
    return true;
}

static void get_bytes(png_structp png, png_bytep to, size_t count)
{
    job *j = png_get_io_ptr(png);
    if (count > (size_t)(j->file->size - j->position))
        png_error(png, "the file ends too early");
    memcpy(to, j->file->bytes + j->position, count);
    j->position += (int64_t)count;
}

static void start_reading(job *j)
{
    j->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, j, give_up, warn);
    if (j->png)
        j->header = png_create_info_struct(j->png);
    if (!j->header) {
        snprintf(j->message, sizeof j->message, "out of memory");
        longjmp(j->back, 1);
    }
    png_set_read_fn(j->png, j, get_bytes);
    png_read_info(j->png, j->header);
}

static void read_info(job *j)
{
    start_reading(j);
    const int type = png_get_color_type(j->png, j->header);
    const bool clear = type & PNG_COLOR_MASK_ALPHA || png_get_valid(j->png, j->header, PNG_INFO_tRNS);
    j->info->height = png_get_image_height(j->png, j->header), j->info->width = png_get_image_width(j->png, j->header);
    j->info->channels = clear ? 4 : type & PNG_COLOR_MASK_COLOR ? 3 : 1;
}

/* Makes the library convert to 8 bits and the requested channels, whatever the file has. */
static void choose_pixels(job *j)
{
    const int channels = j->pixels->channels, type = png_get_color_type(j->png, j->header);
    png_set_expand(j->png); /* palettes, few bits, transparent colours */
    png_set_strip_16(j->png);
    if (channels == 1 && type & PNG_COLOR_MASK_COLOR)
        png_set_rgb_to_gray(j->png, 1, 0.299, 0.587);
    if (channels != 1 && !(type & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(j->png);
    if (channels != 4)
        png_set_strip_alpha(j->png);
    if (channels != 1 && !j->pixels->rgb)
        png_set_bgr(j->png);
}

static void read_row(job *j, unsigned char *to)
{
    if (mx_stop_wanted())
        longjmp(j->back, 1);
    png_read_row(j->png, to, NULL);
}

static void read_pixels(job *j)
{
    const mx_image_pixels *p = j->pixels;
    const size_t stride = (size_t)p->width * (size_t)p->channels;
    start_reading(j);
    choose_pixels(j);
    const int passes = png_set_interlace_handling(j->png);
    png_read_update_info(j->png, j->header);
    if (png_get_rowbytes(j->png, j->header) != stride)
        png_error(j->png, "the pixels have an unexpected format");
    for (int pass = 0; pass < passes; pass++)
        for (int64_t y = 0; y < p->height; y++)
            read_row(j, p->data + (size_t)y * stride);
    png_read_end(j->png, NULL);
}

static bool read_with(job *j, void (*body)(job *j))
{
    const bool fine = guarded(j, body);
    png_destroy_read_struct(&j->png, &j->header, NULL);
    if (!fine && mx_interrupt_check())
        return false;
    return fine || mx_image_fail(j->file, "PNG: the file is truncated or damaged", j->message);
}

static bool probe(const mx_image_file *file, mx_image_info *info)
{
    job j = {.file = file, .info = info};
    return read_with(&j, read_info);
}

static bool decode(const mx_image_file *file, const mx_image_pixels *to)
{
    job j = {.file = file, .pixels = to};
    memset(to->data, 0, (size_t)(to->height * to->width * to->channels)); /* passes fill the rows piece by piece */
    return read_with(&j, read_pixels);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void put_bytes(png_structp png, png_bytep bytes, size_t count)
{
    job *j = png_get_io_ptr(png);
    mx_text_add_bytes(j->out, bytes, count);
}
static void flush(png_structp png) { (void)png; }

static void write_pixels(job *j)
{
    const mx_image_pixels *p = j->pixels;
    const int type = p->channels == 1   ? PNG_COLOR_TYPE_GRAY
                     : p->channels == 3 ? PNG_COLOR_TYPE_RGB
                                        : PNG_COLOR_TYPE_RGB_ALPHA;
    j->png = png_create_write_struct(PNG_LIBPNG_VER_STRING, j, give_up, warn);
    if (j->png)
        j->header = png_create_info_struct(j->png);
    if (!j->header) {
        snprintf(j->message, sizeof j->message, "out of memory");
        longjmp(j->back, 1);
    }
    png_set_write_fn(j->png, j, put_bytes, flush);
    png_set_IHDR(j->png, j->header, (png_uint_32)p->width, (png_uint_32)p->height, 8, type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_set_compression_level(j->png, j->level);
    png_write_info(j->png, j->header);
    if (p->channels != 1 && !p->rgb)
        png_set_bgr(j->png);
    for (int64_t y = 0; y < p->height; y++)
        png_write_row(j->png, p->data + (size_t)(y * p->width * p->channels));
    png_write_end(j->png, NULL);
}

static bool encode(const mx_image_pixels *from, int quality, mx_text *out)
{
    job j = {.pixels = from, .level = quality >= 0 && quality <= 9 ? quality : -1, .out = out};
    const bool fine = guarded(&j, write_pixels);
    png_destroy_write_struct(&j.png, &j.header);
    if (!fine)
        mx_fail(MX_ERR_FILE, "image: PNG: %s", j.message);
    return fine && !out->failed;
}

/* One bit per pixel, and one byte of deflate data expands to at most 1032. */
const mx_image_codec mx_png_codec = {"PNG", ".png", matches, probe, decode, encode, 8 * 1032};

#endif
