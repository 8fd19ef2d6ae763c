/* Atomic operations of a vector of threads, one thread after the other. */
#include <math.h>
#include <string.h>

#include "flags.h"
#include "locate.h"
#include "profile.h"

/* Operations of atom and red. Keep in step with lowering/program.py. */
enum { OP_ADD, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR, OP_EXCH, OP_CAS, OP_INC, OP_DEC };
enum { TYPE_UNSIGNED, TYPE_SIGNED, TYPE_FLOAT, TYPE_F16, TYPE_BF16, TYPE_F16X2, TYPE_BF16X2 };

static int64_t sign_extended(uint64_t value, uint32_t width) {
    return width == 4 ? (int64_t)(int32_t)value : (int64_t)value;
}

/* Replace a subnormal float by a zero of its sign. */
static uint32_t flushed(uint32_t bits) {
    return bits & 0x7F800000u ? bits : bits & 0x80000000u;
}

/* atom.add.f32 flushes subnormal operands and results in global memory, and keeps them in shared
 * memory (PTX ISA, "atom"). */
static uint64_t add_float(uint64_t old, uint64_t operand, uint32_t width, int is_global) {
    if (width == 4) {
        uint32_t a = (uint32_t)old, b = (uint32_t)operand, bits;
        float x, y;
        if (is_global) a = flushed(a), b = flushed(b);
        memcpy(&x, &a, 4);
        memcpy(&y, &b, 4);
        x += y;
        memcpy(&bits, &x, 4);
        if (x != x) return 0x7FFFFFFFu;
        return is_global ? flushed(bits) : bits;
    }
    double x, y;
    memcpy(&x, &old, 8);
    memcpy(&y, &operand, 8);
    x += y;
    memcpy(&old, &x, 8);
    return old;
}

/* Decode a half precision number with `fraction` stored bits (10: float16, 7: bfloat16). */
static double from_half(uint32_t bits, int fraction) {
    int width = 15 - fraction, bias = (1 << (width - 1)) - 1;
    int exponent = (int)(bits >> fraction) & ((1 << width) - 1);
    uint32_t low = bits & ((1u << fraction) - 1);
    double value;
    if (exponent == (1 << width) - 1) value = low ? NAN : INFINITY;
    else if (exponent) value = ldexp((double)(low | 1u << fraction), exponent - bias - fraction);
    else value = ldexp((double)low, 1 - bias - fraction);
    return bits & 0x8000u ? -value : value;
}

/* Encode a number as half precision, rounded to nearest, ties to even. A NaN becomes 0x7FFF. */
static uint32_t to_half(double value, int fraction) {
    int width = 15 - fraction, bias = (1 << (width - 1)) - 1, exponent;
    uint32_t sign = signbit(value) ? 0x8000u : 0;
    if (value != value) return 0x7FFFu;
    value = fabs(value);
    if (value == 0) return sign;
    if (isinf(value)) return sign | (uint32_t)((1 << width) - 1) << fraction;
    frexp(value, &exponent); /* value is in [2^(exponent-1), 2^exponent) */
    int unit = (exponent - 1 < 1 - bias ? 1 - bias : exponent - 1) - fraction;
    double whole = nearbyint(ldexp(value, -unit));
    /* `whole` includes the hidden bit. Adding it, and a carry out of the fraction, increases the
     * exponent field as it should. */
    uint64_t bits = ((uint64_t)(unit + fraction + bias - 1) << fraction) + (uint64_t)whole;
    uint64_t infinite = (uint64_t)((1 << width) - 1) << fraction;
    return sign | (uint32_t)(bits < infinite ? bits : infinite);
}

/* Combine two half precision numbers. Their sum is exact in double precision, or so far from a tie
 * that rounding twice gives the same result. Of a number and a NaN, min and max return the number.
 * -0 is less than +0. */
static uint32_t combine_half(uint32_t op, uint32_t old, uint32_t operand, int fraction) {
    double x = from_half(old, fraction), y = from_half(operand, fraction);
    if (op == OP_ADD) return to_half(x + y, fraction);
    if (x != x) return y != y ? 0x7FFFu : operand;
    if (y != y) return old;
    int less = x < y || (x == y && signbit(x));
    return less == (op == OP_MIN) ? old : operand;
}

static uint64_t combine(uint32_t op, uint32_t type, uint32_t width, uint64_t old, uint64_t operand,
                        uint64_t swap, int is_global) {
    if (type == TYPE_F16 || type == TYPE_BF16)
        return combine_half(op, (uint32_t)old, (uint32_t)operand, type == TYPE_F16 ? 10 : 7);
    if (type == TYPE_F16X2 || type == TYPE_BF16X2) {
        int fraction = type == TYPE_F16X2 ? 10 : 7;
        uint32_t low = combine_half(op, old & 0xFFFF, operand & 0xFFFF, fraction);
        return low | combine_half(op, old >> 16 & 0xFFFF, operand >> 16 & 0xFFFF, fraction) << 16;
    }
    int less = type == TYPE_SIGNED ? sign_extended(old, width) < sign_extended(operand, width)
                                   : old < operand;
    switch (op) {
    case OP_ADD: return type == TYPE_FLOAT ? add_float(old, operand, width, is_global)
                                           : old + operand;
    case OP_MIN: return less ? old : operand;
    case OP_MAX: return less ? operand : old;
    case OP_AND: return old & operand;
    case OP_OR: return old | operand;
    case OP_XOR: return old ^ operand;
    case OP_CAS: return old == operand ? swap : old;
    case OP_INC: return old >= operand ? 0 : old + 1;
    case OP_DEC: return old == 0 || old > operand ? operand : old - 1;
    default: return operand;
    }
}

/* Read, modify and write for one thread after the other, in the order of `lanes`. `operation` holds
 * the operation in its low byte and the type above. `target` is NULL for red. The bits of `strides`
 * are those of sim_store. */
int64_t sim_atomic(const sim_shape *shape, sim_spaces *spaces, const int64_t *lanes,
                   uint64_t count, const void *addresses, uint32_t address_stride,
                   uint32_t operation, uint32_t strides, const uint8_t *operand,
                   const uint8_t *swap, uint8_t *target) {
    last_allocation last = no_allocation();
    int64_t faults = 0;
    uint64_t changes = 0;
    uint32_t width = shape->width;
    sim_flags_access(spaces, shape, lanes, count, addresses, address_stride,
                     FLAG_READ | FLAG_WRITE);
    if (spaces->profile)
        sim_profile_access(spaces, shape, 0, lanes, count, addresses, address_stride);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t lane = lanes ? (uint64_t)lanes[i] : i;
        uint64_t address = address_of(shape, addresses, lane * address_stride);
        uint64_t old = SIM_POISON | (uint64_t)SIM_POISON << 32;
        uint8_t fault = SIM_FINE;
        place found = {0};
        if (address & (width - 1)) fault = SIM_MISALIGNED;
        else if (!locate(shape->space, address, width, lane, spaces, &last, &found))
            fault = SIM_OUT_OF_BOUNDS;
        else if (escapes(spaces, &found))
            spaces->escapes++;
        else {
            if (!all_written(found.shadow, width)) fault = unwritten(found, 0, width);
            if (found.cells) note_write(shape, spaces, found, 0, lane, address, NULL);
            old = read_element(found.data, width, 0);
            uint64_t a = read_element(operand + lane * (strides & 1) * width, width, 0);
            uint64_t b = swap ? read_element(swap + lane * (strides >> 1 & 1) * width, width, 0) : 0;
            uint64_t new = combine(operation & 255, operation >> 8, width, old, a, b,
                                   shape->space == SIM_GLOBAL || (shape->space == SIM_GENERIC &&
                                                                  !(address >> SIM_SPACE_SHIFT)));
            write_element(found.data, width, new);
            changes += read_element(found.data, width, 0) != old;
            set_written(found.shadow, width);
        }
        if (target) write_element(target + lane * width, width, old);
        if (fault) {
            spaces->fault[lane] = fault;
            faults++;
        }
    }
    spaces->changes += changes;
    return faults;
}
