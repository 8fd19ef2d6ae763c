#include "access.h"

#include <math.h>
#include <string.h>

#include "arena.h"
#include "profile.h"
#include "race.h"

/* Instructions reach one allocation after the other; the last one is remembered for the length of
 * one vector, during which nothing can be freed. */
typedef struct last_allocation {
    uint64_t start;
    uint64_t size;
    int64_t to_shadow;
    sim_race_cell *cells; /* NULL where races are not looked for */
} last_allocation;

typedef struct place {
    uint8_t *data;
    uint8_t *shadow;
    sim_race_cell *cells;
    uint32_t since; /* clock before which what the cells say does not count */
} place;

static inline int in_last(uint64_t address, uint64_t bytes, const last_allocation *last) {
    uint64_t offset = address - last->start;
    return offset < last->size && bytes <= last->size - offset;
}

static __attribute__((noinline)) int refill(uint64_t address, uint64_t bytes,
                                            const sim_spaces *spaces, last_allocation *last) {
    const sim_allocation *found = sim_find(address);
    if (!found || !found->live) return 0;
    last->start = found->start;
    last->size = found->size;
    last->cells = spaces->race ? sim_race_cells(spaces->race, found->start) : NULL;
    return in_last(address, bytes, last);
}

static inline __attribute__((always_inline)) int
locate(uint32_t space, uint64_t address, uint64_t bytes, uint64_t thread, const sim_spaces *spaces,
       last_allocation *last, place *found) {
    if (space == SIM_GENERIC) {
        space = (uint32_t)(address >> SIM_SPACE_SHIFT);
        if (space > SIM_PARAM) return 0;
        address &= ((uint64_t)1 << SIM_SPACE_SHIFT) - 1;
    }
    if (space == SIM_GLOBAL) {
        if (!in_last(address, bytes, last) && !refill(address, bytes, spaces, last)) return 0;
        found->data = (uint8_t *)address;
        found->shadow = found->data + last->to_shadow;
        if (last->cells) {
            found->cells = last->cells + ((address - last->start) >> spaces->race->shift);
            found->since = spaces->race->launch_clock;
        }
        return 1;
    }
    const sim_window *window = &spaces->window[space - SIM_SHARED];
    if (address >= window->size || bytes > window->size - address) return 0;
    uint64_t owner = window->owner ? window->owner[thread] : 0;
    uint64_t at = owner * window->size + address;
    found->data = window->data + at;
    found->shadow = window->shadow + at;
    if (space == SIM_SHARED && spaces->race) {
        const sim_race *race = spaces->race;
        found->cells = race->shared + owner * race->shared_cells + (address >> race->shift);
        found->since = race->floor[race->warp_of[thread]];
    }
    return 1;
}

static inline uint64_t address_of(const sim_shape *shape, const void *addresses, uint64_t index) {
    return (shape->address_width == 8 ? ((const uint64_t *)addresses)[index]
                                      : ((const uint32_t *)addresses)[index]) +
           (uint64_t)shape->offset;
}

static inline uint64_t read_element(const uint8_t *data, uint32_t width, uint32_t sign_extend) {
    switch (width) {
    case 1: return sign_extend ? (uint64_t)*(const int8_t *)data : *data;
    case 2: return sign_extend ? (uint64_t)*(const int16_t *)data : *(const uint16_t *)data;
    case 4: return sign_extend ? (uint64_t)*(const int32_t *)data : *(const uint32_t *)data;
    default: return *(const uint64_t *)data;
    }
}

static inline void write_element(uint8_t *data, uint32_t width, uint64_t value) {
    switch (width) {
    case 1: *data = (uint8_t)value; break;
    case 2: *(uint16_t *)data = (uint16_t)value; break;
    case 4: *(uint32_t *)data = (uint32_t)value; break;
    default: *(uint64_t *)data = value;
    }
}

static inline int all_written(const uint8_t *shadow, uint32_t width) {
    switch (width) {
    case 1: return *shadow == 1;
    case 2: return *(const uint16_t *)shadow == 0x0101;
    case 4: return *(const uint32_t *)shadow == 0x01010101u;
    default: return *(const uint64_t *)shadow == 0x0101010101010101u;
    }
}

static inline void set_written(uint8_t *shadow, uint32_t width) {
    write_element(shadow, width, 0x0101010101010101u);
}

static inline last_allocation no_allocation(void) {
    return (last_allocation){0, 0, (int64_t)(sim_arena_shadow() - sim_arena_base()), NULL};
}

/* Tells race.c of a load; one that stands for all threads is that of the first and the last. */
static __attribute__((noinline)) void note_read(const sim_shape *shape, const sim_spaces *spaces,
                                                place found, const int64_t *lanes,
                                                uint64_t count, uint64_t lane, uint64_t address) {
    uint64_t last = lane;
    if (shape->once) {
        lane = lanes ? (uint64_t)lanes[0] : 0;
        last = lanes ? (uint64_t)lanes[count - 1] : count - 1;
    }
    uint32_t bytes = shape->width * shape->elements;
    if (bytes == 4 && last == lane && !shape->how &&
        sim_race_is_known(spaces->race, found.cells, lane, found.since))
        return;
    sim_race_read(spaces->race, found.cells, bytes, lane, shape->site, shape->how, found.since,
                  address);
    if (last != lane)
        sim_race_read(spaces->race, found.cells, bytes, last, shape->site, shape->how,
                      found.since, address);
}

static __attribute__((noinline)) void note_write(const sim_shape *shape, const sim_spaces *spaces,
                                                 place found, uint32_t element,
                                                 uint64_t lane, uint64_t address,
                                                 const uint8_t *source) {
    uint32_t width = shape->width, at = element * width;
    int same = source && memcmp(found.data + at, source, width) == 0;
    sim_race_write(spaces->race, found.cells + (at >> spaces->race->shift), width, lane,
                   shape->site, shape->how, found.since, address + at, same);
}

/* The loops below are one source for all shapes; the callers pass constants for the common shapes,
 * for which the compiler then makes loops of their own. */
static inline __attribute__((always_inline)) int64_t
load(const sim_shape *shape, uint32_t space, uint32_t width, uint32_t elements,
     uint32_t register_width, const sim_spaces *spaces, const int64_t *lanes, uint64_t count,
     const void *addresses, uint32_t address_stride, uint8_t *const *targets) {
    last_allocation last = no_allocation();
    int64_t faults = 0;
    const int64_t *which = shape->once ? NULL : lanes;
    uint64_t turns = shape->once ? 1 : count;
    for (uint64_t i = 0; i < turns; i++) {
        uint64_t lane = which ? (uint64_t)which[i] : i;
        uint64_t address = address_of(shape, addresses, lane * address_stride);
        uint8_t fault = SIM_FINE;
        place found = {0};
        if (address & (width * elements - 1)) fault = SIM_MISALIGNED;
        else if (!locate(space, address, width * elements, lane, spaces, &last, &found))
            fault = SIM_OUT_OF_BOUNDS;
        if (found.cells) note_read(shape, spaces, found, lanes, count, lane, address);
        for (uint32_t e = 0; e < elements; e++) {
            uint64_t value = SIM_POISON | (uint64_t)SIM_POISON << 32;
            if (fault == SIM_FINE || fault == SIM_UNINITIALISED) {
                value = read_element(found.data + e * width, width, shape->sign_extend);
                if (!all_written(found.shadow + e * width, width)) fault = SIM_UNINITIALISED;
            }
            write_element(targets[e] + lane * register_width, register_width, value);
        }
        if (fault) {
            spaces->fault[lane] = fault;
            faults++;
        }
    }
    return faults;
}

static inline __attribute__((always_inline)) int64_t
store(const sim_shape *shape, uint32_t space, uint32_t width, uint32_t elements,
      uint32_t register_width, const sim_spaces *spaces, const int64_t *lanes, uint64_t count,
      const void *addresses, uint32_t address_stride, const uint8_t *const *sources,
      const uint32_t *source_strides) {
    last_allocation last = no_allocation();
    int64_t faults = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t lane = lanes ? (uint64_t)lanes[i] : i;
        uint64_t address = address_of(shape, addresses, lane * address_stride);
        uint8_t fault = SIM_FINE;
        place found = {0};
        if (address & (width * elements - 1)) fault = SIM_MISALIGNED;
        else if (!locate(space, address, width * elements, lane, spaces, &last, &found))
            fault = SIM_OUT_OF_BOUNDS;
        if (fault) {
            spaces->fault[lane] = fault;
            faults++;
            continue;
        }
        for (uint32_t e = 0; e < elements; e++) {
            const uint8_t *source = sources[e] + lane * source_strides[e] * register_width;
            if (found.cells) note_write(shape, spaces, found, e, lane, address, source);
            write_element(found.data + e * width, width, read_element(source, register_width, 0));
            set_written(found.shadow + e * width, width);
        }
    }
    return faults;
}

#define SHAPES(CALL)                                                                       \
    if (shape->space == SIM_GLOBAL && shape->elements == 1 && shape->address_width == 8 && \
        shape->width == shape->register_width) {                                           \
        switch (shape->width) {                                                            \
        case 2: return CALL(SIM_GLOBAL, 2, 1, 2);                                          \
        case 4: return CALL(SIM_GLOBAL, 4, 1, 4);                                          \
        case 8: return CALL(SIM_GLOBAL, 8, 1, 8);                                          \
        }                                                                                  \
    }                                                                                      \
    return CALL(shape->space, shape->width, shape->elements, shape->register_width);

/* Loads for the threads lanes[0..count), or 0..count when `lanes` is NULL, into
 * targets[element][thread]. What cannot be read becomes poison. Addresses lie `address_stride`
 * apart: 1, or 0 when all threads share one. Returns how many threads' accesses were faulty. */
int64_t sim_load(const sim_shape *shape, const sim_spaces *spaces, const int64_t *lanes,
                 uint64_t count, const void *addresses, uint32_t address_stride, uint8_t *first,
                 uint8_t *second, uint8_t *third, uint8_t *fourth) {
    uint8_t *targets[4] = {first, second, third, fourth};
    if (shape->how) sim_race_acquire(spaces, lanes, count);
    if (spaces->profile) sim_profile_access(spaces, shape, lanes, count, addresses, address_stride);
#define LOAD(space, width, elements, register_width)                                             \
    load(shape, space, width, elements, register_width, spaces, lanes, count, addresses,         \
         address_stride, targets)
    SHAPES(LOAD)
}

/* Stores; faulty accesses are dropped. Bit e of `strides` tells whether source e has a value for
 * each thread or one for all. */
int64_t sim_store(const sim_shape *shape, const sim_spaces *spaces, const int64_t *lanes,
                  uint64_t count, const void *addresses, uint32_t address_stride, uint32_t strides,
                  const uint8_t *first, const uint8_t *second, const uint8_t *third,
                  const uint8_t *fourth) {
    const uint8_t *sources[4] = {first, second, third, fourth};
    const uint32_t source_strides[4] = {strides & 1, strides >> 1 & 1, strides >> 2 & 1,
                                        strides >> 3 & 1};
    if (spaces->profile) sim_profile_access(spaces, shape, lanes, count, addresses, address_stride);
#define STORE(space, width, elements, register_width)                                            \
    store(shape, space, width, elements, register_width, spaces, lanes, count, addresses,        \
          address_stride, sources, source_strides)
    SHAPES(STORE)
}

/* Operations of atom and red. Kept in step with instructions/atomic.py. */
enum { OP_ADD, OP_MIN, OP_MAX, OP_AND, OP_OR, OP_XOR, OP_EXCH, OP_CAS, OP_INC, OP_DEC };
enum { TYPE_UNSIGNED, TYPE_SIGNED, TYPE_FLOAT, TYPE_F16, TYPE_BF16, TYPE_F16X2, TYPE_BF16X2 };

static int64_t sign_extended(uint64_t value, uint32_t width) {
    return width == 4 ? (int64_t)(int32_t)value : (int64_t)value;
}

static uint32_t flushed(uint32_t bits) {
    return bits & 0x7F800000u ? bits : bits & 0x80000000u;
}

/* In global memory atom.add.f32 takes and gives subnormal numbers as zeros of their sign, in shared
 * memory it keeps them (PTX ISA, "atom"). */
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

/* A half precision number of `fraction` stored bits (10: float16, 7: bfloat16) as a double. */
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

/* Rounded to nearest, ties to even; a NaN becomes 0x7FFF. */
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
    /* The hidden bit and a carry out of the fraction both add to the exponent as they should. */
    uint64_t bits = ((uint64_t)(unit + fraction + bias - 1) << fraction) + (uint64_t)whole;
    uint64_t infinite = (uint64_t)((1 << width) - 1) << fraction;
    return sign | (uint32_t)(bits < infinite ? bits : infinite);
}

/* The sum of two half precision numbers is exact in double precision, or so far from a tie that
 * rounding twice does no harm. Extrema take the number where one is a NaN; -0 is less than +0. */
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

/* Read-modify-write, one thread after the other in the order of `lanes`. `operation` holds the
 * operation and the type (<< 8); `target` may be NULL (red). Bits of `strides`: as in sim_store. */
int64_t sim_atomic(const sim_shape *shape, sim_spaces *spaces, const int64_t *lanes,
                   uint64_t count, const void *addresses, uint32_t address_stride,
                   uint32_t operation, uint32_t strides, const uint8_t *operand,
                   const uint8_t *swap, uint8_t *target) {
    last_allocation last = no_allocation();
    int64_t faults = 0;
    uint64_t changes = 0;
    uint32_t width = shape->width;
    sim_race_acquire(spaces, lanes, count);
    if (spaces->profile) sim_profile_access(spaces, shape, lanes, count, addresses, address_stride);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t lane = lanes ? (uint64_t)lanes[i] : i;
        uint64_t address = address_of(shape, addresses, lane * address_stride);
        uint64_t old = SIM_POISON | (uint64_t)SIM_POISON << 32;
        uint8_t fault = SIM_FINE;
        place found = {0};
        if (address & (width - 1)) fault = SIM_MISALIGNED;
        else if (!locate(shape->space, address, width, lane, spaces, &last, &found))
            fault = SIM_OUT_OF_BOUNDS;
        else {
            if (!all_written(found.shadow, width)) fault = SIM_UNINITIALISED;
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

/* Rows of bytes, for instructions that move more than a vector register: row i is that of thread
 * lanes[i], which has to be a multiple of `align`. What was wrong with it is noted in faults[i].
 * Returns how many rows were faulty; what cannot be read becomes poison. */
int64_t sim_read_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint64_t align, uint8_t *out,
                      uint8_t *faults) {
    static const uint32_t poison = SIM_POISON;
    last_allocation last = no_allocation();
    int64_t faulty = 0;
    for (uint64_t i = 0; i < rows; i++, out += bytes) {
        place found = {0};
        faults[i] = SIM_FINE;
        if (addresses[i] & (align - 1)) faults[i] = SIM_MISALIGNED;
        else if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found))
            faults[i] = SIM_OUT_OF_BOUNDS;
        else {
            memcpy(out, found.data, bytes);
            for (uint64_t b = 0; b < bytes; b++)
                if (found.shadow[b] != 1) faults[i] = SIM_UNINITIALISED;
        }
        if (!found.data)
            for (uint64_t b = 0; b < bytes; b++) out[b] = ((const uint8_t *)&poison)[b & 3];
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}

/* Stores rows, or only takes them off what counts as written where `in` is NULL. */
int64_t sim_write_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows,
                       const int64_t *lanes, const uint64_t *addresses, uint64_t bytes,
                       uint64_t align, const uint8_t *in, uint8_t *faults) {
    last_allocation last = no_allocation();
    int64_t faulty = 0;
    for (uint64_t i = 0; i < rows; i++) {
        place found = {0};
        faults[i] = SIM_FINE;
        if (addresses[i] & (align - 1)) faults[i] = SIM_MISALIGNED;
        else if (!locate(space, addresses[i], bytes, (uint64_t)lanes[i], spaces, &last, &found))
            faults[i] = SIM_OUT_OF_BOUNDS;
        else {
            if (in) memcpy(found.data, in + i * bytes, bytes);
            memset(found.shadow, in ? 1 : 0, bytes);
        }
        faulty += faults[i] != SIM_FINE;
    }
    return faulty;
}
