/* Records of .params files: one array each.  SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_NDARRAY_PARAMS_H
#define MX_NDARRAY_PARAMS_H

#include "base/file.h"
#include "ndarray/array.h"

/* The first word of a record says its version; any other word is the number of axes of a record of version 0. */
#define MX_PARAMS_V1 0xF993FAC8u /* 64-bit sizes */
#define MX_PARAMS_V2 0xF993FAC9u /* and storage kinds */
#define MX_PARAMS_V3 0xF993FACAu /* and 0-d and zero-size arrays */
#define MX_PARAMS_LIST 0x112u    /* first word of the file */

/* A new reference on cpu(0); NULL with a file error.  Sparse records are sparse arrays.  *none is set when the record
 * means "no array" (then NULL without an error). */
mx_array *mx_params_read_record(mx_reader *reader, bool *none);
/* A failure to fetch the elements is recorded and fails the writer. */
void mx_params_write_record(mx_writer *writer, mx_array *x);

/* ---- lists of named arrays, which other formats fill, too ----------------------------------------------------- */
/* Fills the list from a file; false with a file error. */
typedef bool (*mx_read_arrays_fn)(mx_array_dict *dict, mx_reader *reader);
/* The arrays of a file of any format; belongs to the scope.  Errors about the path name `who`. */
mx_array_dict *mx_load_with(const char *path, const char *who, mx_read_arrays_fn read);
/* The same from memory; `who` is its name in errors. */
mx_array_dict *mx_load_bytes(const void *bytes, size_t count, const char *who, mx_read_arrays_fn read);
/* Appends; takes over the reference to x, also on failure.  A NULL x fails.  name NULL: the list has no names. */
bool mx_array_dict_add(mx_array_dict *dict, const char *name, mx_array *x);
/* A list of these arrays, for the scope; sharing them. */
mx_array_dict *mx_array_dict_of(mx_arrays arrays, const char *const *names);
void mx_array_dict_unname(mx_array_dict *dict); /* makes it a list without names */
/* How many arrays a list for a file has; -1 with an error that names `who` if one of them cannot be saved. */
int64_t mx_save_check(const char *who, mx_arrays arrays, const char *const *names);
/* The elements of x; a failure to fetch them fails the writer. */
void mx_save_elements(mx_writer *writer, mx_array *x);

/* ---- the formats (formats.c chooses) ---------------------------------------------------------------------------- */
bool mx_params_read(mx_array_dict *dict, mx_reader *reader);
bool mx_npz_read(mx_array_dict *dict, mx_reader *reader);
bool mx_safetensors_read(mx_array_dict *dict, mx_reader *reader);
bool mx_hdf5_read(mx_array_dict *dict, mx_reader *reader);
/* Arrays in groups "vars" that have an attribute "name", as Keras 3 writes them, have it in place of "vars". */
bool mx_hdf5_read_layers(mx_array_dict *dict, mx_reader *reader);
bool mx_keras_read_layers(mx_array_dict *dict, mx_reader *reader); /* of the HDF5 file in a .keras archive */
/* Weights of Keras: HDF5, or the HDF5 file in a .keras archive, with the names of layers. */
mx_array_dict *mx_load_layers(const char *path);
mx_code mx_save_params(const char *path, mx_arrays arrays, const char *const *names); /* names may be NULL */

#endif
