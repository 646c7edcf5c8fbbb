/* Included first by every mutated file: which mutant is active, and which ones were reached.  See mutate.py.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_MUTANT_H
#define TESTS_MUTANT_H

/* Compilers may assume that the number does not change, so that loops stay fast; mutant.c maps a file over both arrays. */
extern const int mx_mutant_number[];
extern int mx_mutant_reached[];
#define MX_MUTANT(n) (mx_mutant_reached[n] = 1, mx_mutant_number[0] == (n))

/* A mutant whose types differ is not a small mistake: the compiler notices it.  What else it warns of stays. */
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Warray-bounds"
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#pragma GCC diagnostic ignored "-Waggressive-loop-optimizations"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wsequence-point"

#endif
