/* Digits by exact arithmetic on large integers (the method of Steele and White).
 *
 * The value and half the distances to its neighbours are stored as fractions over one denominator `scale`:
 *
 *     value / scale in [0, 10)      low / scale, high / scale: how far down or up a number still rounds to the value
 *
 * Each step extracts the integer part as a digit and multiplies the rest by 10.  It ends as soon as the remainder is
 * within the distances (the digits are unique) or there are enough digits; the last digit is then rounded.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include "ndarray/digits.h"

#include <math.h>
#include <string.h>

/* ---- natural numbers of up to 1280 bits: a double needs 1024 + 53 and room for a few factors of 10 ---------- */
#define LIMBS 40
typedef struct {
    int length;           /* limbs in use; the highest is not 0 */
    uint32_t limb[LIMBS]; /* lowest first */
} natural;

static natural natural_from(uint64_t value)
{
    natural n = {.length = value >> 32 ? 2 : value ? 1 : 0};
    n.limb[0] = (uint32_t)value;
    n.limb[1] = (uint32_t)(value >> 32);
    return n;
}

static void multiply(natural *n, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < n->length; i++) {
        carry += (uint64_t)n->limb[i] * factor;
        n->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        n->limb[n->length++] = (uint32_t)carry;
}

static void multiply_power_of_10(natural *n, int power)
{
    for (; power >= 9; power -= 9)
        multiply(n, 1000000000u);
    for (; power > 0; power--)
        multiply(n, 10);
}

static void shift_left(natural *n, int bits)
{
    int limbs = bits / 32;
    multiply(n, (uint32_t)1 << bits % 32);
    if (!limbs || !n->length)
        return;
    memmove(n->limb + limbs, n->limb, (size_t)n->length * sizeof *n->limb);
    memset(n->limb, 0, (size_t)limbs * sizeof *n->limb);
    n->length += limbs;
}

static int compare(const natural *a, const natural *b)
{
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    for (int i = a->length - 1; i >= 0; i--)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

/* a -= b, a >= b */
static void subtract(natural *a, const natural *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < a->length; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->length ? b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    while (a->length && !a->limb[a->length - 1])
        a->length--;
}

static natural sum(const natural *a, const natural *b)
{
    natural result = {.length = a->length > b->length ? a->length : b->length};
    uint64_t carry = 0;
    for (int i = 0; i < result.length; i++) {
        carry += (uint64_t)(i < a->length ? a->limb[i] : 0) + (i < b->length ? b->limb[i] : 0);
        result.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry)
        result.limb[result.length++] = (uint32_t)carry;
    return result;
}

/* ---- the fraction ----------------------------------------------------------------------------------------- */
typedef struct {
    natural value, low, high, scale;
    bool even;    /* the mantissa is even: a tie between neighbours reads back as this value */
    int exponent; /* of the next digit */
} fraction;

typedef struct { int8_t mantissa_bits; int16_t least_exponent; } float_row; /* of the last mantissa bit */
static const float_row float_rows[MX_DTYPE_END] = {
    [MX_FLOAT64] = {53, -1074}, [MX_FLOAT32] = {24, -149}, [MX_FLOAT16] = {11, -24}, [MX_BFLOAT16] = {8, -133},
};

/* value = mantissa * 2^power exactly, as the type stores it. */
static uint64_t decompose(double value, float_row row, int *power)
{
    int exponent;
    frexp(value, &exponent); /* value < 2^exponent */
    *power = exponent - row.mantissa_bits > row.least_exponent ? exponent - row.mantissa_bits : row.least_exponent;
    return (uint64_t)ldexp(value, -*power);
}

static void times_10(fraction *f)
{
    multiply(&f->value, 10);
    multiply(&f->low, 10);
    multiply(&f->high, 10);
}

static fraction make_fraction(double value, float_row row)
{
    int power;
    uint64_t mantissa = decompose(value, row, &power);
    fraction f = {.value = natural_from(mantissa), .low = natural_from(1), .scale = natural_from(1)};
    f.even = !(mantissa & 1);
    /* Everything times 2, so that half a step is an integer; times 4 where the step below is half as long. */
    bool uneven = mantissa == (uint64_t)1 << (row.mantissa_bits - 1) && power > row.least_exponent;
    int shift = uneven ? 2 : 1, up = power > 0 ? power : 0, down = power < 0 ? -power : 0;
    shift_left(&f.value, up + shift);
    shift_left(&f.low, up);
    shift_left(&f.scale, down + shift);
    f.high = f.low;
    shift_left(&f.high, shift - 1);
    /* The exponent of 10 from the logarithm; too small by one at most. */
    f.exponent = (int)ceil(log10(value) - 1e-9) - 1;
    if (f.exponent > 0) {
        multiply_power_of_10(&f.scale, f.exponent);
    } else if (f.exponent < 0) {
        multiply_power_of_10(&f.value, -f.exponent);
        multiply_power_of_10(&f.low, -f.exponent);
        multiply_power_of_10(&f.high, -f.exponent);
    }
    if (compare(&f.value, &f.scale) < 0) { /* the first digit would be 0 */
        times_10(&f);
        f.exponent--;
    }
    natural ten = f.scale;
    multiply(&ten, 10);
    if (compare(&f.value, &ten) >= 0) {
        f.scale = ten;
        f.exponent++;
    }
    return f;
}

static int take_digit(fraction *f)
{
    int digit = 0;
    for (; compare(&f->value, &f->scale) >= 0; digit++)
        subtract(&f->value, &f->scale);
    return digit;
}

/* Adds one to the last digit; nines become dropped zeros. */
static void round_up(mx_digits *d)
{
    while (d->count && d->digit[d->count - 1] == '9')
        d->count--;
    if (d->count) {
        d->digit[d->count - 1]++;
    } else {
        d->digit[d->count++] = '1';
        d->exponent++;
    }
}

mx_digits mx_digits_of(double value, mx_dtype dtype, mx_digits_rule rule)
{
    mx_digits d = {.count = 1, .digit = "0"};
    value = fabs(value);
    if (value == 0)
        return d;
    fraction f = make_fraction(value, float_rows[dtype]);
    d.count = 0;
    d.exponent = f.exponent;
    int base = rule.fractional ? 0 : f.exponent; /* the digit limits count from here */
    int last = rule.most < 0 ? base - 10000 : base - rule.most, wanted = base - rule.least;
    bool low, high;
    for (;; f.exponent--, times_10(&f)) {
        int digit = take_digit(&f);
        d.digit[d.count++] = (char)('0' + digit);
        natural above = sum(&f.value, &f.high);
        int to_low = compare(&f.value, &f.low), to_high = compare(&above, &f.scale);
        low = f.even ? to_low <= 0 : to_low < 0;
        high = f.even ? to_high >= 0 : to_high > 0;
        if (((low || high) && f.exponent <= wanted) || f.exponent <= last || d.count == MX_MOST_DIGITS)
            break;
    }
    bool up = high;
    if (low == high) { /* the nearer one; a tie goes to the even digit */
        multiply(&f.value, 2);
        int order = compare(&f.value, &f.scale);
        up = order > 0 || (order == 0 && (d.digit[d.count - 1] & 1));
    }
    if (up)
        round_up(&d);
    while (d.count > 1 && d.digit[d.count - 1] == '0')
        d.count--;
    return d;
}
