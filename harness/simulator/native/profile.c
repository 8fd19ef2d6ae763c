/* Counters of memory traffic: sectors of global memory and wavefronts of shared memory.
 *
 * docs/simulator.md compares them with measurements on an H200. */
#include "profile.h"

#include <string.h>

enum { WARP = 32, BANKS = 32, SECTOR = 32 };

/* The accesses of one warp by one instruction. */
typedef struct request {
    uint32_t count;
    uint32_t bytes; /* that each thread accesses */
    int is_load;
    uint64_t address[WARP];
    uint8_t lane[WARP];
} request;

/* Remove repeated values, and return how many are left. */
static uint32_t distinct(uint64_t *values, uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = kept;
        /* Search backwards, because equal values are mostly neighbours. */
        while (j > 0 && values[j - 1] != values[i]) j--;
        if (j == 0) values[kept++] = values[i];
    }
    return kept;
}

static void count_sectors(const request *warp, sim_site_counts *counts) {
    uint64_t sectors[WARP];
    /* Accesses are at most 16 bytes and aligned to their size, so each lies in one sector. */
    for (uint32_t i = 0; i < warp->count; i++) sectors[i] = warp->address[i] / SECTOR;
    counts->sectors += distinct(sectors, warp->count);
    counts->ideal_sectors += (warp->count * warp->bytes + SECTOR - 1) / SECTOR;
}

/* Return the passes for threads from..to: the most different words that one bank must deliver. */
static uint32_t passes(const request *warp, uint32_t from, uint32_t to) {
    uint64_t words[WARP * 4];
    uint32_t count = 0, in_bank[BANKS] = {0}, most = 0;
    for (uint32_t i = 0; i < warp->count; i++)
        if (warp->lane[i] >= from && warp->lane[i] < to)
            for (uint32_t b = 0; b < warp->bytes; b += 4) words[count++] = warp->address[i] / 4 + b / 4;
    count = distinct(words, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t now = ++in_bank[words[i] % BANKS];
        if (now > most) most = now;
    }
    return most;
}

/* Return whether each thread has the same address as its partner, whose number differs in one bit.
 * Threads without an active partner count as equal. */
static int is_shared_by_partners(const request *warp, uint32_t bit) {
    uint64_t address[WARP];
    uint32_t active = 0;
    for (uint32_t i = 0; i < warp->count; i++) {
        address[warp->lane[i]] = warp->address[i];
        active |= 1u << warp->lane[i];
    }
    for (uint32_t i = 0; i < warp->count; i++) {
        uint32_t partner = warp->lane[i] ^ bit;
        if (active >> partner & 1 && address[partner] != warp->address[i]) return 0;
    }
    return 1;
}

/* Count the wavefronts of a request. A wavefront delivers 128 bytes: those of 32, 16 or 8 threads.
 * If partners load the same bytes, half as many bytes are needed. A wavefront then serves twice as
 * many threads (NVIDIA's developer forum, "Unexpected shared memory bank conflict"). */
static void count_wavefronts(const request *warp, sim_site_counts *counts) {
    uint32_t threads = warp->bytes <= 4 ? WARP : warp->bytes <= 8 ? WARP / 2 : WARP / 4;
    if (threads < WARP && warp->is_load &&
        (is_shared_by_partners(warp, 1) || is_shared_by_partners(warp, 2)))
        threads *= 2;
    for (uint32_t from = 0; from < WARP; from += threads) {
        uint32_t needed = passes(warp, from, from + threads);
        counts->wavefronts += needed;
        counts->ideal_wavefronts += needed > 0;
    }
}

/* Return the state space that an address leads to. */
static uint32_t resolved(uint32_t space, uint64_t address) {
    if (space != SIM_GENERIC) return space;
    space = (uint32_t)(address >> SIM_SPACE_SHIFT);
    return space > SIM_PARAM ? SIM_GLOBAL : space;
}

static void count_request(const request *warp, uint32_t space, sim_site_counts *counts) {
    counts->requests++;
    counts->threads += warp->count;
    counts->bytes += warp->count * warp->bytes;
    for (uint32_t i = 1; i < warp->count; i++) {
        if (warp->lane[i] != warp->lane[i - 1] + 1) continue;
        int64_t stride = (int64_t)(warp->address[i] - warp->address[i - 1]);
        if (!counts->pairs++) counts->stride = stride;
        counts->pairs_alike += stride == counts->stride;
    }
    space = resolved(space, warp->address[0]);
    counts->space = space;
    if (space == SIM_GLOBAL) count_sectors(warp, counts);
    if (space == SIM_SHARED) count_wavefronts(warp, counts);
}

void sim_profile_access(const sim_spaces *spaces, const sim_shape *shape, int is_load,
                        const int64_t *lanes, uint64_t count, const void *addresses,
                        uint32_t address_stride) {
    const sim_profile *profile = spaces->profile;
    sim_site_counts *counts = &profile->sites[shape->site];
    request warp = {0, shape->width * shape->elements, is_load, {0}, {0}};
    uint32_t number = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t lane = lanes ? (uint64_t)lanes[i] : i;
        if (warp.count && profile->warp_of[lane] != number) {
            count_request(&warp, shape->space, counts);
            warp.count = 0;
        }
        number = profile->warp_of[lane];
        uint64_t index = lane * address_stride;
        uint64_t base = shape->address_width == 8 ? ((const uint64_t *)addresses)[index]
                                                  : ((const uint32_t *)addresses)[index];
        warp.address[warp.count] = base + (uint64_t)shape->offset;
        warp.lane[warp.count++] = profile->lane_of[lane];
    }
    if (warp.count) count_request(&warp, shape->space, counts);
}

static void count_in_bulk(uint32_t space, uint64_t rows, const uint64_t *addresses, uint64_t bytes,
                          sim_site_counts *counts) {
    uint64_t before = UINT64_MAX;
    counts->requests += (rows * bytes + WARP * 4 - 1) / (WARP * 4);
    counts->threads++;
    counts->bytes += rows * bytes;
    counts->space = resolved(space, addresses[0]);
    if (counts->space != SIM_GLOBAL) return;
    counts->ideal_sectors += (rows * bytes + SECTOR - 1) / SECTOR;
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t first = addresses[i] / SECTOR, last = (addresses[i] + bytes - 1) / SECTOR;
        counts->sectors += last - first + 1 - (first == before);
        before = last;
    }
}

void sim_profile_rows(const sim_spaces *spaces, uint32_t space, uint64_t rows, const int64_t *lanes,
                      const uint64_t *addresses, uint64_t bytes, uint32_t site, uint32_t in_bulk) {
    const sim_profile *profile = spaces->profile;
    sim_site_counts *counts = &profile->sites[site];
    request warp = {0, (uint32_t)bytes, 0, {0}, {0}};
    for (uint64_t i = 0, next; in_bulk && i < rows; i = next) {
        for (next = i + 1; next < rows && lanes[next] == lanes[i];) next++;
        count_in_bulk(space, next - i, addresses + i, bytes, counts);
    }
    for (uint64_t i = 0; !in_bulk && i < rows; i++) {
        uint64_t lane = (uint64_t)lanes[i];
        warp.address[warp.count] = addresses[i];
        warp.lane[warp.count++] = profile->lane_of[lane];
        if (i + 1 < rows && lanes[i + 1] > lanes[i] &&
            profile->warp_of[lanes[i + 1]] == profile->warp_of[lane])
            continue;
        count_request(&warp, space, counts);
        warp.count = 0;
    }
}
