/* Device memory, as arena.h describes it.
 *
 * The arena hands out addresses in ascending order and never uses one twice. So an access to freed
 * memory is always detected, and the table of allocations is sorted without further work. The price
 * is address space: the arena reserves 256 GiB of it, or less if the system refuses. */
#define _GNU_SOURCE
#include "arena.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((uint64_t)65536) /* a multiple of every page size in use on x86-64 and AArch64 */
#define LARGEST_RANGE ((uint64_t)256 << 30)
#define SMALLEST_RANGE ((uint64_t)4 << 30)
#define TABLE_ENTRIES ((uint64_t)4 << 20)
#define DEFAULT_LIMIT ((uint64_t)8 << 30)
#define LEAST_SPARSE ((uint64_t)1 << 30)
/* An address that no process uses for anything else. So a worker that uses a device address as a
 * host pointer does not reach its own data. */
#define PREFERRED_BASE ((void *)((uint64_t)0x20 << 40))

/* The table of allocations. It lies in shared memory, so forked processes see its current state. */
typedef struct table {
    uint64_t count;
    sim_allocation entries[TABLE_ENTRIES];
} table;

static struct {
    pthread_mutex_t lock;
    uint8_t *base;
    uint8_t *shadow;
    uint64_t size;
    uint64_t used; /* bytes of the range that are handed out, including guards */
    uint64_t live_bytes;
    uint64_t peak_bytes; /* the most bytes that were live at a time */
    uint64_t limit;
    int sparse; /* whether large allocations are sparse */
    table *table;
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .limit = DEFAULT_LIMIT};

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

static void *reserve(void *place, uint64_t bytes, int protection) {
    void *range = mmap(place, bytes, protection, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return range == MAP_FAILED ? NULL : range;
}

static int reserve_ranges(uint64_t size) {
    arena.base = reserve(PREFERRED_BASE, size, PROT_NONE);
    /* The whole shadow is writable, and untouched pages cost nothing. Protecting it in pieces would
     * need a mapping for each allocation, and a process has at most some 65,000 mappings. */
    arena.shadow = reserve(NULL, size, PROT_READ | PROT_WRITE);
    if (arena.base && arena.shadow) {
        arena.size = size;
        return 0;
    }
    if (arena.base) munmap(arena.base, size);
    if (arena.shadow) munmap(arena.shadow, size);
    arena.base = arena.shadow = NULL;
    return -1;
}

static int init_locked(void) {
    if (arena.table) return 0;
    table *entries = reserve(NULL, sizeof *entries, PROT_READ | PROT_WRITE);
    if (!entries) return -1;
    for (uint64_t size = LARGEST_RANGE; size >= SMALLEST_RANGE; size /= 2)
        if (reserve_ranges(size) == 0) {
            arena.table = entries;
            return 0;
        }
    munmap(entries, sizeof *entries);
    return -1;
}

int sim_arena_init(void) {
    pthread_mutex_lock(&arena.lock);
    int status = init_locked();
    pthread_mutex_unlock(&arena.lock);
    return status;
}

static void fill_poison(uint8_t *start, uint64_t bytes) {
    uint32_t *words = (uint32_t *)start;
    for (uint64_t i = 0; i < bytes / 4; i++) words[i] = SIM_POISON;
}

static void *alloc_locked(uint64_t size, int owned) {
    if (size == 0 || init_locked() || arena.table->count == TABLE_ENTRIES) return NULL;
    uint64_t sparse = arena.sparse && size >= LEAST_SPARSE;
    uint64_t counted = sparse ? 0 : size;
    if (counted > arena.limit || arena.live_bytes > arena.limit - counted) return NULL;
    uint64_t mapped = round_up(size, PAGE);
    uint64_t needed = PAGE + mapped + PAGE;
    if (needed > arena.size || arena.used > arena.size - needed) return NULL;
    uint8_t *start = arena.base + arena.used + PAGE;
    if (mprotect(start, mapped, PROT_READ | PROT_WRITE)) return NULL;
    if (!sparse) fill_poison(start, mapped);
    uint64_t serial = arena.table->count;
    arena.table->entries[serial] =
        (sim_allocation){(uint64_t)start, size, 1, serial, (uint64_t)owned, sparse};
    arena.table->count++;
    arena.used += PAGE + mapped; /* two neighbouring allocations share the guard between them */
    arena.live_bytes += counted;
    if (arena.live_bytes > arena.peak_bytes) arena.peak_bytes = arena.live_bytes;
    return start;
}

void *sim_alloc(size_t size) {
    pthread_mutex_lock(&arena.lock);
    void *start = alloc_locked(size, 0);
    pthread_mutex_unlock(&arena.lock);
    return start;
}

void *sim_alloc_owned(size_t size) {
    pthread_mutex_lock(&arena.lock);
    void *start = alloc_locked(size, 1);
    pthread_mutex_unlock(&arena.lock);
    return start;
}

/* A binary search: the table is sorted by start. */
const sim_allocation *sim_find(uint64_t address) {
    uint64_t low = 0, high = sim_arena_table_count();
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (arena.table->entries[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? &arena.table->entries[low - 1] : NULL;
}

static int free_locked(uint8_t *start) {
    sim_allocation *found = (sim_allocation *)sim_find((uint64_t)start);
    if (!found || found->start != (uint64_t)start || !found->live) return -1;
    uint64_t mapped = round_up(found->size, PAGE);
    /* Older Linux kernels free the pages of writable memory only. */
    mprotect(start, mapped, PROT_READ | PROT_WRITE);
    madvise(start, mapped, MADV_REMOVE);
    madvise(arena.shadow + (start - arena.base), mapped, MADV_REMOVE);
    mprotect(start, mapped, PROT_NONE);
    found->live = 0;
    if (!found->sparse) arena.live_bytes -= found->size;
    return 0;
}

int sim_free(void *pointer) {
    if (!pointer) return 0;
    pthread_mutex_lock(&arena.lock);
    int status = free_locked(pointer);
    pthread_mutex_unlock(&arena.lock);
    return status;
}

int sim_contains(const void *pointer) {
    return arena.base && (uint64_t)((const uint8_t *)pointer - arena.base) < arena.size;
}

/* Call `visit` for each part of [start, start + size) that lies in a live allocation. */
static void each_live_part(uint64_t start, uint64_t size,
                           void (*visit)(uint64_t, uint64_t, const void *), const void *context) {
    uint64_t end = start + size < start ? UINT64_MAX : start + size;
    const sim_allocation *entry = sim_find(start);
    const sim_allocation *last = arena.table->entries + arena.table->count;
    for (entry = entry ? entry : arena.table->entries; entry < last && entry->start < end; entry++) {
        uint64_t from = start > entry->start ? start : entry->start;
        uint64_t stop = entry->start + entry->size;
        uint64_t to = end < stop ? end : stop;
        if (entry->live && from < to) visit(from, to - from, context);
    }
}

static uint8_t *shadow_of(uint64_t address) { return arena.shadow + (address - (uint64_t)arena.base); }

static void mark(uint64_t start, uint64_t size, const void *unused) {
    (void)unused;
    memset(shadow_of(start), 1, size);
}

void sim_mark_written(const void *pointer, size_t size) {
    pthread_mutex_lock(&arena.lock);
    if (sim_contains(pointer)) each_live_part((uint64_t)pointer, size, mark, NULL);
    pthread_mutex_unlock(&arena.lock);
}

typedef struct copied {
    uint64_t target;
    uint64_t source;
} copied;

static void copy_shadow(uint64_t start, uint64_t size, const void *context) {
    const copied *from = context;
    memmove(shadow_of(start), shadow_of(from->source + (start - from->target)), size);
}

void sim_copy_written(void *target, const void *source, size_t size) {
    pthread_mutex_lock(&arena.lock);
    copied context = {(uint64_t)target, (uint64_t)source};
    if (sim_contains(target)) {
        int device = sim_contains(source) && sim_contains((const uint8_t *)source + size - 1);
        each_live_part((uint64_t)target, size, device ? copy_shadow : mark, &context);
    }
    pthread_mutex_unlock(&arena.lock);
}

void sim_set_limit(uint64_t bytes) { arena.limit = bytes; }
void sim_set_sparse(int sparse) { arena.sparse = sparse; }
int sim_is_sparse(void) { return arena.sparse; }
uint64_t sim_get_limit(void) { return arena.limit; }
uint64_t sim_live_bytes(void) { return arena.live_bytes; }
uint64_t sim_peak_bytes(void) { return arena.peak_bytes; }
void sim_reset_peak(void) { arena.peak_bytes = arena.live_bytes; }
uint64_t sim_arena_base(void) { return (uint64_t)arena.base; }
uint64_t sim_arena_size(void) { return arena.size; }
uint64_t sim_arena_shadow(void) { return (uint64_t)arena.shadow; }
const sim_allocation *sim_arena_table(void) { return arena.table ? arena.table->entries : NULL; }
uint64_t sim_arena_table_count(void) { return arena.table ? arena.table->count : 0; }

int sim_arena_join(void) { return mprotect(arena.base, arena.size, PROT_READ | PROT_WRITE); }
