/* RecordIO: files of numbered byte strings (.rec), the index beside them (.idx), and the header of image records.
 *
 *     mx_record_writer *out = mx_record_writer_open("train.rec", "train.idx");
 *     mx_record_write(out, "0", bytes, size);
 *     mx_record_writer_close(out);
 *
 *     mx_record_reader *in = mx_record_reader_open("train.rec");
 *     for (mx_array *record; (record = mx_record_read(in));)
 *         use(mx_array_data(record), mx_size(record));
 *
 * A record is an array of bytes (uint8, one axis).  Writing is atomic: the complete files appear when the writer is
 * closed, and not before.  A damaged file gives MX_ERR_FILE; nothing larger than the file is ever allocated.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GLUON_RECORDIO_H
#define GLUON_RECORDIO_H

#include "gluon/array.h"

typedef struct mx_record_reader mx_record_reader;
typedef struct mx_record_writer mx_record_writer;
typedef struct mx_record_index mx_record_index;

/* ---- reading ---------------------------------------------------------------------------------------------- */
MX_API mx_record_reader *mx_record_reader_open(const char *path);
/* The next record; NULL at the end, and NULL with an error recorded if the file is damaged. */
MX_API mx_array *mx_record_read(mx_record_reader *reader);
/* Skips the next record without reading it; false at the end, and false with an error if the file is damaged. */
MX_API bool mx_record_skip(mx_record_reader *reader);
MX_API mx_array *mx_record_read_at(mx_record_reader *reader, int64_t position); /* seek, then read */
MX_API int64_t mx_record_reader_position(const mx_record_reader *reader); /* bytes; where the next record begins */
MX_API mx_code mx_record_reader_seek(mx_record_reader *reader, int64_t position); /* 0: the first record */
MX_API void mx_record_reader_close(mx_record_reader *reader); /* destroying the reader does it, too */

/* ---- writing ---------------------------------------------------------------------------------------------- */
/* index_path NULL: no index.  A writer that is destroyed without being closed leaves no file. */
MX_API mx_record_writer *mx_record_writer_open(const char *path, const char *index_path);
/* key: the record's key in the index, without white space; NULL: none, or there is no index. */
MX_API mx_code mx_record_write(mx_record_writer *writer, const char *key, const void *bytes, int64_t size);
MX_API int64_t mx_record_writer_position(const mx_record_writer *writer); /* where the next record will begin */
MX_API mx_code mx_record_writer_close(mx_record_writer *writer); /* the files appear; closing twice is harmless */

/* ---- index: lines "key TAB position" ------------------------------------------------------------------------ */
MX_API mx_record_index *mx_record_index_load(const char *path);
MX_API int64_t mx_record_index_count(const mx_record_index *index);
MX_API const char *mx_record_index_key(const mx_record_index *index, int64_t i); /* in file order */
MX_API int64_t mx_record_index_position(const mx_record_index *index,
                                        int64_t i); /* -1 with an error if there is none */
MX_API int64_t mx_record_index_find(const mx_record_index *index, const char *key); /* number; -1 without an error */

/* ---- image records: a header, labels, the image file -------------------------------------------------------- */
typedef struct mx_record_header {
    uint32_t flag; /* 0: `label` is the label; n: n labels follow the header */
    float label;   /* with flag > 0 it is written as 0 */
    uint64_t id, id2;
} mx_record_header;
/* Header, labels (n > 0: sets flag to n; n == 0: header.label is used) and payload as one record. */
MX_API mx_array *mx_record_pack(mx_record_header header, const float *labels, int64_t n, const void *bytes,
                                int64_t size);
/* Unpacks a record: *labels is (1) or (flag) float32, *payload the rest as bytes.  Each may be NULL. */
MX_API mx_code mx_record_unpack(mx_array *record, mx_record_header *header, mx_array **labels, mx_array **payload);

/* ---- record files from image files --------------------------------------------------------------------------- */
/* In two steps: lists of the images, which can be edited, then records of the images in the lists.
 *
 *     mx_im2rec_list("pets", "photos", .recursive = true, .train_ratio = 0.8);   // pets_train.lst, pets_val.lst
 *     mx_im2rec("pets", "photos", .resize = 256);                                // a .rec and .idx file for each
 */
struct mx_im2rec_args {
    bool recursive;          /* list: also the folders below root; the label is the number of the folder, else 0 */
    const char *const *exts; /* list: suffixes of images, ended by NULL; NULL: .jpeg, .jpg, .png */
    int chunks;              /* list: number of lists, PREFIX_0.lst, ... */
    double train_ratio;      /* list: fraction in PREFIX_train.lst; 1: all, in PREFIX.lst */
    double test_ratio;       /* list: fraction in PREFIX_test.lst; what is left is in PREFIX_val.lst */
    bool shuffle;            /* list: in random order, the same in every run */
    bool pass_through;       /* records: files as they are */
    int64_t resize;          /* records: length of the shorter side; 0: unchanged */
    bool center_crop;        /* records: the largest square in the centre */
    int quality;             /* records: JPEG 1..100, PNG 0..9 */
    int num_thread;          /* records: threads that read and write images */
    int color;               /* records: 1: three channels, 0: gray, -1: as stored */
    const char *encoding;    /* records: ".jpg" or ".png" */
    bool pack_label;         /* records: all labels of a list, else the first */
    /* Gets a line about the classes, images that are left out and finished files; NULL: none. */
    void (*report)(void *user, const char *line);
    void *user;
    char positional_;
    const char *prefix; /* of the lists and record files */
    const char *root;   /* the folder of the images */
};
#define MX_IM2REC_DEFAULTS \
    .chunks = 1, .train_ratio = 1, .shuffle = true, .quality = 95, .num_thread = 1, .color = 1, .encoding = ".jpg"
#define mx_im2rec_list(...) \
    mx_im2rec_make_lists(&(struct mx_im2rec_args){MX_IM2REC_DEFAULTS, .positional_ = 0, __VA_ARGS__})
#define mx_im2rec(...) \
    mx_im2rec_make_records(&(struct mx_im2rec_args){MX_IM2REC_DEFAULTS, .positional_ = 0, __VA_ARGS__})
MX_API mx_code mx_im2rec_make_lists(const struct mx_im2rec_args *args);
/* Every list PREFIX*.lst becomes a .rec and an .idx file beside it.  Images that cannot be read are left out. */
MX_API mx_code mx_im2rec_make_records(const struct mx_im2rec_args *args);

#endif
