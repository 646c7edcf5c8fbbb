/* Instruction levels: every file of this folder is compiled once per level, with MX_LEVEL naming it.
 *
 * Exported names of such a file carry the level, so that all levels fit into one library and cpu/device.c
 * picks one of them when the library is first used.
 *
 * Registers decide the sizes of the tiles that kernels hold in them; a 64-bit ARM always has NEON, whose level is the
 * one with the larger tiles and its instructions.
 *
 * The levels of ARM above NEON add instructions for 16-bit floats and bytes, which few kernels use: only files whose table is
 * an MX_CPU_KERNELS_ARM are compiled for them, with MX_LEVEL_BASE naming the level from which all else is taken.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef MX_CPU_LEVEL_H
#define MX_CPU_LEVEL_H

#ifndef MX_LEVEL
#define MX_LEVEL generic
#endif

#ifndef MX_LEVEL_BASE
#define MX_LEVEL_BASE MX_LEVEL
#endif

#define MX_LEVEL_PASTE2(name, level) name##_##level
#define MX_LEVEL_PASTE(name, level) MX_LEVEL_PASTE2(name, level)
#define MX_LEVEL_NAME(name) MX_LEVEL_PASTE(name, MX_LEVEL_BASE)
#define MX_LEVEL_TABLE(name) MX_LEVEL_PASTE(name, MX_LEVEL)

#if defined(__AVX512F__)
#define MX_VECTOR_BYTES 64
#define MX_VECTOR_REGISTERS 32
#elif defined(__AVX2__)
#define MX_VECTOR_BYTES 32
#define MX_VECTOR_REGISTERS 16
#elif defined(MX_NEON)
#define MX_VECTOR_BYTES 16
#define MX_VECTOR_REGISTERS 32
#else
#define MX_VECTOR_BYTES 16
#define MX_VECTOR_REGISTERS 16
#endif

/* A function that loads or stores part of a vector where the level has no masks: the edges of arrays are rare, and inlined in
 * every unrolled step it would be most of the code.  On ARM, it leaves most registers of its caller as they are. */
#if defined(__aarch64__)
#define MX_AT_EDGES __attribute__((noinline, unused, aarch64_vector_pcs))
#else
#define MX_AT_EDGES __attribute__((noinline, unused))
#endif

/* Before a loop with independent iterations; clang has no such pragma and checks at run time. */
#if defined(__clang__)
#define MX_IVDEP
#else
#define MX_IVDEP _Pragma("GCC ivdep")
#endif

#endif
