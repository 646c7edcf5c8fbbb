/* Arguments of public functions by type: good ones and garbage (see functions.h).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GARBAGE_ARGUMENTS_H
#define TESTS_GARBAGE_ARGUMENTS_H

#include "garbage.h"
#include "gluon.h"
#include "gluon/dlpack.h"

/* Kinds of objects: X(kind, an expression for a good one). */
#define GARBAGE_KINDS(X) \
    X(ARRAY, good_array(d)) \
    X(ARRAY_DICT, mx_load(garbage_chance(d, 50) ? "a.params" : "a.npy")) \
    X(BLOCK, good_block(d)) \
    X(COMM, mx_comm_world()) \
    X(COMM_WORK, mx_comm_all_reduce_start(mx_comm_world(), small(), MX_SUM)) \
    X(DATASET, good_dataset(d)) \
    X(EXECUTOR, good_executor(d)) \
    X(INITIALIZER, garbage_chance(d, 50) ? mx_xavier() : mx_uniform()) \
    X(KVSTORE, mx_kvstore_new("local")) \
    X(LOADER, mx_data_loader(good_dataset(d), 1 + (int64_t)garbage_roll(d, 3), .num_workers = (int)garbage_roll(d, 2))) \
    X(LOSS_SCALER, mx_loss_scaler_new()) \
    X(LR_SCHEDULER, mx_factor_scheduler(3)) \
    X(METRIC, garbage_chance(d, 50) ? mx_accuracy() : mx_metric_group(NULL, 0)) \
    X(OPTIMIZER, garbage_chance(d, 50) ? mx_sgd(.momentum = 0.9) : mx_adam()) \
    X(OPTIMIZER_STATE, mx_optimizer_state_new(mx_adam(), small())) \
    X(PARAMETER, good_parameter(d)) \
    X(PARAMS, mx_collect_params(good_block(d))) \
    X(RECORD_INDEX, mx_record_index_load("a.idx")) \
    X(RECORD_READER, good_reader(d)) \
    X(RECORD_WRITER, good_writer(d)) \
    X(SAMPLER, garbage_chance(d, 50) ? mx_random_sampler(5, 1) : mx_interval_sampler(7, 2, true)) \
    X(SUMMARY_WRITER, mx_summary_writer_new("events")) \
    X(SYMBOL, good_symbol(d)) \
    X(TOKENIZER, mx_tokenizer_open("t.json")) \
    X(TRAIN_STEP, good_step(d)) \
    X(TRAINER, mx_trainer_new(mx_collect_params(good_block(d)), "sgd", "momentum=0.9")) \
    X(UPDATER, mx_updater_new(mx_sgd()))
#define GARBAGE_KIND_NAME(kind, make) GARBAGE_##kind,
typedef enum garbage_kind { GARBAGE_KINDS(GARBAGE_KIND_NAME) GARBAGE_KIND_COUNT } garbage_kind;
#undef GARBAGE_KIND_NAME

bool garbage_chance(garbage_dice *d, int percent);
void *garbage_object(garbage_dice *d, garbage_kind kind);
mx_op *garbage_op(garbage_dice *d);
mx_class *garbage_class(garbage_dice *d);

int garbage_int(garbage_dice *d);
int64_t garbage_int64(garbage_dice *d);
int garbage_count(garbage_dice *d);   /* of a list or of memory: at most 8 */
size_t garbage_room(garbage_dice *d); /* bytes: at most those of garbage_buffer() */
double garbage_double(garbage_dice *d);
bool garbage_bool(garbage_dice *d);
int garbage_enum(garbage_dice *d);

mx_dims garbage_dims(garbage_dice *d);
mx_floats garbage_floats(garbage_dice *d);
mx_context garbage_context(garbage_dice *d);
mx_arrays garbage_arrays(garbage_dice *d);
const char *garbage_text(garbage_dice *d); /* followed by zeros */
FILE *garbage_stream(garbage_dice *d);
struct DLManagedTensor *garbage_tensor(garbage_dice *d);
struct DLManagedTensorVersioned *garbage_tensor_versioned(garbage_dice *d);
void *garbage_buffer(garbage_dice *d);
const void **garbage_buffers(garbage_dice *d);

/* Zeroed memory until the end of the call. */
void *garbage_memory(size_t bytes);
void garbage_memory_free(void);
/* The call got an object that is none of the wanted kind. */
bool garbage_gave_bad(void);
void garbage_give_anew(
    bool bad); /* whether it did so far: lists and structs may be ignored, and so may what is in them */

/* What callbacks return, in turn. */
mx_code garbage_stub_code(void);
mx_array *garbage_stub_array(void);
mx_arrays garbage_stub_arrays(void);
double garbage_stub_double(void);

#endif
