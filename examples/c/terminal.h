/* Terminal helpers of the examples: options, a progress bar, grey images.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef EXAMPLES_TERMINAL_H
#define EXAMPLES_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The number after "--name", or the fallback. */
static inline double option(int argc, char **argv, const char *name, double fallback)
{
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], name))
            return atof(argv[i + 1]);
    return fallback;
}

static inline bool has_option(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return false;
}

static inline double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* "epoch 1 [#####.....]  50 %", redrawn in place; nothing if the output is a file. */
static inline void progress(int epoch, int64_t done, int64_t all)
{
    enum { WIDTH = 30 };
    const int64_t marks = all ? WIDTH * done / all : WIDTH, before = all ? WIDTH * (done - 1) / all : WIDTH;
    if (!isatty(STDOUT_FILENO) || (marks == before && done > 1))
        return;
    printf("\repoch %d [%.*s%.*s] %3d %%", epoch, (int)marks, "##############################", (int)(WIDTH - marks),
           "..............................", (int)(all ? 100 * done / all : 100));
    if (done >= all)
        printf("\r\033[K");
    fflush(stdout);
}

/* Images of height x width grey values in 0..1, side by side; one character shows two rows. */
static inline void draw_images(const float *const *images, int count, int height, int width)
{
    static const char *const shades[] = {" ", "░", "▒", "▓", "█"};
    for (int row = 0; row + 1 < height; row += 2) {
        for (int i = 0; i < count; i++) {
            for (int column = 0; column < width; column++) {
                const float *pixel = images[i] + (ptrdiff_t)row * width + column;
                const float grey = (pixel[0] + pixel[width]) / 2;
                fputs(shades[grey >= 1 ? 4 : grey > 0 ? (int)(5 * grey) : 0], stdout);
            }
            fputs(i + 1 < count ? "  " : "\n", stdout);
        }
    }
}

#endif
