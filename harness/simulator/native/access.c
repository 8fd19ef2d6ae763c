/* Loads and stores of a vector of threads. Each access is checked for its alignment and bounds, for
 * bytes that nothing has written, and for races. */
#include "access.h"

#include "flags.h"
#include "locate.h"
#include "profile.h"

/* Report a load to race.c. A load that stands for all threads is reported for the first and last
 * thread: race.c needs two readers at most, of different warps if possible. */
static __attribute__((noinline)) void note_read(const sim_shape *shape, const sim_spaces *spaces,
                                                place found, const int64_t *lanes,
                                                uint64_t count, uint64_t lane, uint64_t address) {
    uint64_t last = lane;
    if (shape->once) {
        lane = lanes ? (uint64_t)lanes[0] : 0;
        last = lanes ? (uint64_t)lanes[count - 1] : count - 1;
    }
    uint32_t bytes = shape->width * shape->elements;
    if (shape->constant)
        sim_race_constant(spaces->race, found.cells, sim_race_cell_count(spaces->race, bytes), lane,
                          shape->site, found.since, address);
    if (bytes == 4 && last == lane && !shape->how &&
        sim_race_is_known(spaces->race, found.cells, lane, found.since))
        return;
    uint64_t cells = sim_race_cell_count(spaces->race, bytes);
    sim_race_read(spaces->race, found.cells, cells, lane, shape->site, shape->how, found.since,
                  address);
    if (last != lane)
        sim_race_read(spaces->race, found.cells, cells, last, shape->site, shape->how,
                      found.since, address);
}

/* Return the fault of an element whose bytes are not all written, or else the fault `before`. Set
 * the value to poison if a copy of it is pending. */
static __attribute__((noinline)) uint8_t not_written(place found, uint32_t at, uint32_t width,
                                                     uint8_t before, uint64_t *value) {
    for (uint32_t b = 0; b < width; b++)
        if (found.shadow[at + b] == SIM_PENDING) *value = SIM_POISON | (uint64_t)SIM_POISON << 32;
    uint8_t fault = unwritten(found, at, width);
    return fault ? fault : before;
}

/* The two loops below serve all shapes. SHAPES passes constants for the common shapes, so that the
 * compiler generates a specialised loop for each of them. */
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
                if (!all_written(found.shadow + e * width, width))
                    fault = not_written(found, e * width, width, fault, &value);
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
      uint32_t register_width, sim_spaces *spaces, const int64_t *lanes, uint64_t count,
      const void *addresses, uint32_t address_stride, const uint8_t *const *sources,
      const uint32_t *source_strides) {
    last_allocation last = no_allocation();
    int64_t faults = 0;
    uint64_t changed = 0;
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
        if (escapes(spaces, &found)) {
            spaces->escapes++;
            continue;
        }
        for (uint32_t e = 0; e < elements; e++) {
            const uint8_t *source = sources[e] + lane * source_strides[e] * register_width;
            if (found.cells) note_write(shape, spaces, found, e, lane, address, source);
            uint8_t *data = found.data + e * width;
            uint64_t before = read_element(data, width, 0);
            write_element(data, width, read_element(source, register_width, 0));
            changed |= before ^ read_element(data, width, 0);
            set_written(found.shadow + e * width, width);
        }
    }
    spaces->changes += changed != 0;
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
    if (shape->space == SIM_SHARED && shape->width == 4 && shape->register_width == 4) {   \
        switch (shape->elements) {                                                         \
        case 1: return CALL(SIM_SHARED, 4, 1, 4);                                          \
        case 2: return CALL(SIM_SHARED, 4, 2, 4);                                          \
        case 4: return CALL(SIM_SHARED, 4, 4, 4);                                          \
        }                                                                                  \
    }                                                                                      \
    return CALL(shape->space, shape->width, shape->elements, shape->register_width);

/* Load for the threads lanes[0..count), or 0..count when `lanes` is NULL, into
 * targets[element][thread]. Bytes that cannot be read become poison. The addresses of two threads
 * are `address_stride` elements apart: 1, or 0 if all threads share one. Return how many threads'
 * accesses were faulty. */
int64_t sim_load(const sim_shape *shape, const sim_spaces *spaces, const int64_t *lanes,
                 uint64_t count, const void *addresses, uint32_t address_stride, uint8_t *first,
                 uint8_t *second, uint8_t *third, uint8_t *fourth) {
    uint8_t *targets[4] = {first, second, third, fourth};
    if (shape->how)
        sim_flags_access(spaces, shape, lanes, count, addresses, address_stride, FLAG_READ);
    if (spaces->profile)
        sim_profile_access(spaces, shape, 1, lanes, count, addresses, address_stride);
#define LOAD(space, width, elements, register_width)                                             \
    load(shape, space, width, elements, register_width, spaces, lanes, count, addresses,         \
         address_stride, targets)
    SHAPES(LOAD)
}

/* Store for the same threads, and drop faulty accesses. Bit e of `strides` is 1 if source e has a
 * value for each thread, and 0 if it has one for all. */
int64_t sim_store(const sim_shape *shape, sim_spaces *spaces, const int64_t *lanes,
                  uint64_t count, const void *addresses, uint32_t address_stride, uint32_t strides,
                  const uint8_t *first, const uint8_t *second, const uint8_t *third,
                  const uint8_t *fourth) {
    const uint8_t *sources[4] = {first, second, third, fourth};
    const uint32_t source_strides[4] = {strides & 1, strides >> 1 & 1, strides >> 2 & 1,
                                        strides >> 3 & 1};
    if (shape->how)
        sim_flags_access(spaces, shape, lanes, count, addresses, address_stride, FLAG_WRITE);
    if (spaces->profile)
        sim_profile_access(spaces, shape, 0, lanes, count, addresses, address_stride);
#define STORE(space, width, elements, register_width)                                            \
    store(shape, space, width, elements, register_width, spaces, lanes, count, addresses,        \
          address_stride, sources, source_strides)
    SHAPES(STORE)
}
