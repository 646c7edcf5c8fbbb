/* What the two steps of im2rec share.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_GLUON_DATA_IM2REC_H
#define MX_GLUON_DATA_IM2REC_H

#include "gluon/data/image_files.h"
#include "gluon/recordio.h"

void mx_im2rec_say(const struct mx_im2rec_args *args, const char *format, ...) MX_PRINTF(2, 3);
mx_code mx_im2rec_check(const struct mx_im2rec_args *args); /* options of both steps */

#endif
