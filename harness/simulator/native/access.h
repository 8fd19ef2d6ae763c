/* Checked loads, stores and atomics of the simulated device, a vector of threads at a time. */
#ifndef SIM_ACCESS_H
#define SIM_ACCESS_H

#include <stdint.h>

/* Where an instruction looks. A generic address carries the space in its top byte. */
enum { SIM_GLOBAL, SIM_SHARED, SIM_LOCAL, SIM_PARAM, SIM_GENERIC };
#define SIM_SPACE_SHIFT 56

/* What was wrong with one thread's access, in `fault`. Kept in step with access.py. */
enum { SIM_FINE, SIM_OUT_OF_BOUNDS, SIM_MISALIGNED, SIM_UNINITIALISED };

/* What the shadow holds for each byte. Of a copy that nobody has waited for the data is there, but
 * reads as poison. What kernels wrote, or was made of it, is told apart from what came from the
 * host or from an operator of torch. */
enum { SIM_UNWRITTEN, SIM_WRITTEN, SIM_PENDING, SIM_BY_KERNEL = 0x81 };

/* A space of which each block or thread has its own part of `size` bytes: thread t sees the part
 * number owner[t], or part 0 when there is no `owner`. */
typedef struct sim_window {
    uint8_t *data;
    uint8_t *shadow;
    uint64_t size;
    const uint32_t *owner;
} sim_window;

typedef struct sim_spaces {
    sim_window window[3]; /* shared, local, param */
    uint8_t *fault;       /* one byte for each thread; only those of faulty accesses are written */
    struct sim_race *race;       /* NULL where races are not looked for */
    struct sim_profile *profile; /* NULL where nothing is counted */
    uint64_t changes;     /* atomics that left another value than they found */
    uint32_t confined;    /* whether other processes run other blocks of the launch: see `escapes` */
    uint64_t escapes;     /* accesses of global memory that race.c should know of and does not; then
                           * nothing was stored */
} sim_spaces;

/* One load or store instruction, as far as it is known before it runs. */
typedef struct sim_shape {
    uint32_t space;
    uint32_t width;          /* bytes of one element in memory: 1, 2, 4, 8 */
    uint32_t elements;       /* 1, 2, 4: a vector access */
    uint32_t register_width; /* bytes of the register: width or more */
    uint32_t sign_extend;    /* a load into a wider register */
    uint32_t address_width;  /* bytes of the address register: 4 or 8 */
    int64_t offset;
    uint32_t site;           /* number of the place in the program */
    uint32_t how;            /* RACE_PLAIN, RACE_STRONG or RACE_ATOMIC */
    uint32_t once;           /* one access at one address stands for all threads */
} sim_shape;

#endif
