/* The orientation of the camera in the EXIF segment of a JPEG file, and rotating pixels accordingly.
 *
 *     FF E1 | u16 length | "Exif" 0 0 | TIFF: "II" or "MM", 42, u32 offset of a table:
 *     u16 entries | entries of 12 bytes: u16 tag (0x0112), u16 type (3), u32 count, value
 *
 *     1 unchanged     2 mirrored           3 rotated by 180 degrees   4 flipped vertically
 *     5 transposed    6 rotated clockwise  7 anti-transposed          8 rotated counter-clockwise
 *
 * A damaged segment counts as 1.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/image.h"

typedef struct tiff {
    const unsigned char *bytes;
    int64_t size;
    bool big; /* big-endian */
} tiff;

static uint32_t number(const tiff *t, int64_t at, int bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint32_t)t->bytes[at + i] << 8 * (t->big ? bytes - 1 - i : i);
    return value;
}

static int orientation_in(const tiff *t)
{
    if (t->size < 8 || number(t, 2, 2) != 42)
        return 1;
    const int64_t table = number(t, 4, 4);
    if (table > t->size - 2)
        return 1;
    const int64_t entries = number(t, table, 2);
    for (int64_t i = 0; i < entries && table + 2 + 12 * (i + 1) <= t->size; i++) {
        const int64_t at = table + 2 + 12 * i;
        const uint32_t value = number(t, at + 8, 2);
        if (number(t, at, 2) == 0x0112)
            return number(t, at + 2, 2) == 3 && value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int mx_image_orientation(const unsigned char *bytes, int64_t size)
{
    for (int64_t at = 2; at + 4 <= size && bytes[at] == 0xff;) {
        const int64_t length = bytes[at + 2] << 8 | bytes[at + 3];
        const unsigned char *body = bytes + at + 4;
        if (bytes[at + 1] == 0xda || length < 2 || at + 2 + length > size)
            return 1; /* the pixels begin, or the file is damaged */
        if (bytes[at + 1] == 0xe1 && length >= 16 && !memcmp(body, "Exif\0", 6))
            return orientation_in(&(tiff){body + 6, length - 8, body[6] == 'M'});
        at += 2 + length;
    }
    return 1;
}

void mx_image_turn(int orientation, const mx_image_pixels *from, const mx_image_pixels *to)
{
    const bool swaps = orientation >= 5,
               right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
               down = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    /* Output (y, x) reads source (y, x), or (x, y) where the axes are swapped, from the far end where it is mirrored. */
    const size_t pixel = (size_t)from->channels;
    for (int64_t y = 0; y < to->height; y++)
        for (int64_t x = 0; x < to->width; x++) {
            const int64_t row = swaps ? x : y, column = swaps ? y : x, r = down ? from->height - 1 - row : row,
                          c = right ? from->width - 1 - column : column;
            memcpy(to->data + (size_t)(y * to->width + x) * pixel, from->data + (size_t)(r * from->width + c) * pixel,
                   pixel);
        }
}
