/* Image files in memory: JPEG, PNG, PGM and PPM.
 *
 *     bytes -> mx_image_probe: format, size, channels -> the caller allocates -> mx_image_decode -> pixels (H, W, C)
 *
 * Callers call mx_image_probe before they allocate; it refuses sizes that the number of bytes cannot hold, so
 * allocations are bounded by the file size times the best compression ratio.  Damaged and truncated files are
 * errors, not gray areas.  JPEG and PNG need their libraries at build time; without them the error names the package.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_BASE_IMAGE_H
#define MX_BASE_IMAGE_H

#include "base/text.h"

typedef struct mx_image_info {
    const char *format;    /* "JPEG", "PNG", "PNM" */
    int64_t height, width; /* both at least 1 */
    int channels;          /* of the file: 1 gray, 3 colour, 4 colour and alpha */
} mx_image_info;

/* The bytes of a file and its name in messages. */
typedef struct mx_image_file {
    const unsigned char *bytes; /* (size), not owned */
    int64_t size;
    const char *name;
    bool upright; /* apply the EXIF orientation */
} mx_image_file;

/* Pixels (height, width, channels), interleaved. */
typedef struct mx_image_pixels {
    unsigned char *data; /* not owned */
    int64_t height, width;
    int channels; /* 1, 3 or 4 */
    bool rgb;     /* channels 0 and 2 are red and blue; else blue and red */
} mx_image_pixels;

/* Reads the header; records an error and returns false if the image cannot be decoded. */
bool mx_image_probe(const mx_image_file *file, mx_image_info *info);
/* Fills `to`, which has the size of the file's image; any number of channels (4 only for files that have 4). */
bool mx_image_decode(const mx_image_file *file, const mx_image_pixels *to);
/* Appends the file of an image with 1, 3 or (PNG) 4 channels.  format: ".jpg", ".jpeg", ".png", ".pgm", ".ppm", any
 * case.  quality: JPEG 1..100; PNG compression 0..9 (others: the default). */
bool mx_image_encode(const mx_image_pixels *from, const char *format, int quality, mx_text *out);

/* ---- one per format (the table is in image.c) ------------------------------------------------------------ */
typedef struct mx_image_codec {
    const char *format;
    const char *suffixes; /* ".jpg .jpeg" */
    bool (*matches)(const unsigned char *bytes, int64_t size);
    bool (*probe)(const mx_image_file *file, mx_image_info *info);
    bool (*decode)(const mx_image_file *file, const mx_image_pixels *to);
    bool (*encode)(const mx_image_pixels *from, int quality, mx_text *out);
    int64_t density; /* the most pixels that one byte of a file can encode */
} mx_image_codec;
extern const mx_image_codec mx_jpeg_codec, mx_png_codec;
/* Luma (BT.601): 0.299 R + 0.587 G + 0.114 B, in 14 bits. */
static inline unsigned char mx_image_luma(int red, int green, int blue)
{
    return (unsigned char)((4899 * red + 9617 * green + 1868 * blue + 8192) >> 14);
}
/* "name: message" as MX_ERR_FILE; returns false. */
bool mx_image_fail(const mx_image_file *file, const char *format, const char *message);
int mx_image_orientation(const unsigned char *bytes, int64_t size); /* of a JPEG file: 1..8, 1 if it has none */
/* Applies an orientation to pixels; from 5 on, height and width are exchanged. */
void mx_image_turn(int orientation, const mx_image_pixels *from, const mx_image_pixels *to);
bool mx_image_missing(const char *format, const char *package); /* MX_ERR_UNSUPPORTED; returns false */

#endif
