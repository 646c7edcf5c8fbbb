/* JPEG through libjpeg (or libjpeg-turbo).
 *
 * libjpeg reports fatal errors through a function that must not return.  The jump back is confined to this file: every
 * call into the library happens between setjmp in `guarded` and its return, and the stack frames that the jump skips
 * hold none of our variables.  Warnings that mean lost pixels are errors here; harmless ones (bytes between segments)
 * are not.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "base/image.h"

#include "base/error.h"
#include "base/interrupt.h"

static bool matches(const unsigned char *bytes, int64_t size)
{
    return size > 2 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff;
}

#ifndef HAVE_JPEG

static bool no_probe(const mx_image_file *file, mx_image_info *info)
{
    return (void)file, (void)info, mx_image_missing("JPEG", "libjpeg-dev");
}
static bool no_decode(const mx_image_file *file, const mx_image_pixels *to)
{
    return (void)file, (void)to, mx_image_missing("JPEG", "libjpeg-dev");
}
static bool no_encode(const mx_image_pixels *from, int quality, mx_text *out)
{
    return (void)from, (void)quality, (void)out, mx_image_missing("JPEG", "libjpeg-dev");
}
const mx_image_codec mx_jpeg_codec = {"JPEG", ".jpg .jpeg", matches, no_probe, no_decode, no_encode, 1};

#else

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

/* Everything that a call needs; lives in the caller of `guarded`, so that a jump cannot corrupt it. */
typedef struct job {
    struct jpeg_error_mgr errors; /* first member: libjpeg passes its address back */
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
    struct jpeg_decompress_struct read;
    struct jpeg_compress_struct write;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    bool ran_out; /* the bytes ended before the end mark */
    const mx_image_file *file;
    mx_image_info *info;           /* non-NULL: read only the header */
    const mx_image_pixels *pixels; /* to be read or written */
    int quality;
    unsigned char *row;   /* (width, 3), for pixels in the order B, G, R where the library cannot */
    unsigned char *bytes; /* the written file, malloc'ed by libjpeg */
    unsigned long size;
} job;

static void give_up(j_common_ptr library)
{
    job *j = (job *)library->err;
    j->errors.format_message(library, j->message);
    longjmp(j->back, 1);
}

static void warn(j_common_ptr library, int level)
{
    static const int harmless[] = {JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR, JWRN_ADOBE_XFORM, JWRN_TOO_MUCH_DATA};
    if (level >= 0)
        return; /* a trace */
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (library->err->msg_code == harmless[i])
            return;
    give_up(library);
}

static void say_nothing(j_common_ptr library) { (void)library; }

/* Called while the library works, also through the scans of a file that refines its image many times. */
static void stop_if_wanted(j_common_ptr library)
{
    job *j = (job *)library->err;
    if (mx_stop_wanted())
        longjmp(j->back, 1);
}

/* Runs `body` with the library's errors caught; false with the message recorded. */
static bool guarded(job *j, void (*body)(job *j))
{
    jpeg_std_error(&j->errors);
    j->errors.error_exit = give_up;
    j->errors.emit_message = warn;
    j->errors.output_message = say_nothing;
    if (setjmp(j->back))
        return false;
    body(j);
    return true;
}

/* ---- source: the bytes in memory ------------------------------------------------------------------------------ */

static void source_nothing(j_decompress_ptr library) { (void)library; }

/* Out of input.  An end mark is supplied once: a file that lost only its end mark is complete, and one that
 * lost more makes the decoder warn about missing data, which is an error. */
static boolean source_fill(j_decompress_ptr library)
{
    static const JOCTET end[2] = {0xff, JPEG_EOI};
    job *j = (job *)library->err;
    if (j->ran_out)
        ERREXIT(library, JERR_INPUT_EOF);
    j->ran_out = true;
    library->src->next_input_byte = end;
    library->src->bytes_in_buffer = 2;
    return TRUE;
}

static void source_skip(j_decompress_ptr library, long count)
{
    job *j = (job *)library->err;
    if (count <= 0)
        return;
    if (j->ran_out || (unsigned long)count > library->src->bytes_in_buffer)
        ERREXIT(library, JERR_INPUT_EOF);
    library->src->next_input_byte += count;
    library->src->bytes_in_buffer -= (size_t)count;
}

static void start_reading(job *j)
{
    j->read.err = &j->errors;
    jpeg_create_decompress(&j->read);
    j->source = (struct jpeg_source_mgr){.next_input_byte = j->file->bytes, .bytes_in_buffer = (size_t)j->file->size,
                                         .init_source = source_nothing, .fill_input_buffer = source_fill,
                                         .skip_input_data = source_skip, .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_nothing};
    j->read.src = &j->source;
    j->progress.progress_monitor = stop_if_wanted;
    j->read.progress = &j->progress;
    jpeg_read_header(&j->read, TRUE);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static void read_info(job *j)
{
    start_reading(j);
    j->info->height = j->read.image_height, j->info->width = j->read.image_width;
    j->info->channels = j->read.num_components == 1 ? 1 : 3;
}

/* CMYK, stored inverted by the programs that write such files; k is the inverted black. */
static int from_print(int colour, int k) { return k - ((255 - colour) * k >> 8); }

static void from_print_colours(const unsigned char *from, const mx_image_pixels *p, unsigned char *to)
{
    for (int64_t i = 0; i < p->width; i++, from += 4, to += p->channels) {
        const int red = from_print(from[0], from[3]), green = from_print(from[1], from[3]),
                  blue = from_print(from[2], from[3]);
        if (p->channels == 1)
            to[0] = mx_image_luma(red, green, blue);
        else
            to[p->rgb ? 0 : 2] = (unsigned char)red, to[1] = (unsigned char)green,
                            to[p->rgb ? 2 : 0] = (unsigned char)blue;
    }
}

static void swap_red_and_blue(unsigned char *row, int64_t width)
{
    for (int64_t i = 0; i < width; i++, row += 3) {
        const unsigned char kept = row[0];
        row[0] = row[2], row[2] = kept;
    }
}

static void read_row(job *j, JSAMPROW to, bool print)
{
    JSAMPROW row = print ? j->row : to;
    if (jpeg_read_scanlines(&j->read, &row, 1) != 1)
        ERREXIT(&j->read, JERR_INPUT_EOF);
    if (print)
        from_print_colours(j->row, j->pixels, to);
    else if (j->pixels->channels == 3 && !j->pixels->rgb)
        swap_red_and_blue(to, j->pixels->width);
}

static void read_pixels(job *j)
{
    start_reading(j);
    const bool print = j->read.num_components == 4;
    const size_t stride = (size_t)j->pixels->width * (size_t)j->pixels->channels;
    j->read.out_color_space = print ? JCS_CMYK : j->pixels->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_start_decompress(&j->read);
    if (print)
        j->row = (*j->read.mem->alloc_large)((j_common_ptr)&j->read, JPOOL_IMAGE, (size_t)j->pixels->width * 4);
    for (int64_t y = 0; y < j->pixels->height; y++)
        read_row(j, j->pixels->data + (size_t)y * stride, print);
    if (jpeg_has_multiple_scans(&j->read) && j->ran_out)
        ERREXIT(&j->read, JERR_INPUT_EOF); /* scans that refine the image are missing */
}

static bool read_with(job *j, void (*body)(job *j))
{
    const bool fine = guarded(j, body);
    if (j->read.err)
        jpeg_destroy_decompress(&j->read);
    if (!fine && mx_interrupt_check())
        return false;
    return fine || mx_image_fail(j->file, "JPEG: the file is truncated or damaged", j->message);
}

static bool probe(const mx_image_file *file, mx_image_info *info)
{
    job j = {.file = file, .info = info};
    return read_with(&j, read_info);
}

static bool decode(const mx_image_file *file, const mx_image_pixels *to)
{
    job j = {.file = file, .pixels = to};
    return read_with(&j, read_pixels);
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

static void write_pixels(job *j)
{
    const mx_image_pixels *p = j->pixels;
    struct jpeg_compress_struct *c = &j->write;
    const size_t stride = (size_t)p->width * (size_t)p->channels;
    c->err = &j->errors;
    jpeg_create_compress(c);
    jpeg_mem_dest(c, &j->bytes, &j->size);
    c->image_width = (JDIMENSION)p->width, c->image_height = (JDIMENSION)p->height;
    c->input_components = p->channels;
    c->in_color_space = p->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    jpeg_set_quality(c, j->quality, TRUE);
    jpeg_start_compress(c, TRUE);
    j->row = (*c->mem->alloc_large)((j_common_ptr)c, JPOOL_IMAGE, stride);
    for (int64_t y = 0; y < p->height; y++) {
        memcpy(j->row, p->data + (size_t)y * stride, stride);
        if (p->channels == 3 && !p->rgb)
            swap_red_and_blue(j->row, p->width);
        jpeg_write_scanlines(c, &j->row, 1);
    }
    jpeg_finish_compress(c);
}

static bool encode(const mx_image_pixels *from, int quality, mx_text *out)
{
    if (from->channels == 4 || from->width > JPEG_MAX_DIMENSION || from->height > JPEG_MAX_DIMENSION) {
        mx_fail(MX_ERR_ARGUMENT,
                "image: a JPEG file has 1 or 3 channels and at most %d rows and columns, got (%lld, %lld, %d)",
                (int)JPEG_MAX_DIMENSION, (long long)from->height, (long long)from->width, from->channels);
        return false;
    }
    job j = {.pixels = from, .quality = quality < 0 ? 0 : quality > 100 ? 100 : quality};
    const bool fine = guarded(&j, write_pixels);
    if (j.write.err)
        jpeg_destroy_compress(&j.write);
    if (fine)
        mx_text_add_bytes(out, j.bytes, (size_t)j.size);
    else
        mx_fail(MX_ERR_FILE, "image: JPEG: %s", j.message);
    free(j.bytes);
    return fine && !out->failed;
}

/* An empty block of 64 pixels takes at least one bit per scan. */
const mx_image_codec mx_jpeg_codec = {"JPEG", ".jpg .jpeg", matches, probe, decode, encode, 512};

#endif
