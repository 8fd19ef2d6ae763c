/* Flags and fences in race detection; flags.h describes the rules. */
#include "flags.h"

#include "locate.h"

/* How many places of the table are searched for a flag. */
enum { PROBES = 16 };

static void raise_to(uint32_t *time, uint32_t other) {
    if (other > *time) *time = other;
}

/* Return the place of a flag in the table. If the flag is not there, make it with `make`, or return
 * NULL. Flags for which there is no place share one, so that they order too much. */
static sim_flag *find(sim_flags *flags, uint64_t key, int make) {
    uint64_t start = key * 0x9E3779B97F4A7C15u >> 32;
    for (uint64_t i = 0; i < PROBES; i++) {
        sim_flag *flag = &flags->table[(start + i) & (flags->size - 1)];
        if (flag->key == key) return flag;
        if (flag->key) continue;
        if (!make) return NULL;
        flag->key = key;
        return flag;
    }
    return &flags->table[flags->size];
}

/* Return the key of a word of 4 bytes. Each block has shared memory of its own. */
static uint64_t key_of(const sim_race *race, uint32_t space, uint64_t address, uint64_t lane) {
    if (space == SIM_GENERIC) {
        space = (uint32_t)(address >> SIM_SPACE_SHIFT);
        address &= ((uint64_t)1 << SIM_SPACE_SHIFT) - 1;
    }
    uint64_t block = (race->first_thread + lane) / race->threads;
    return space == SIM_GLOBAL ? address >> 2 : (uint64_t)1 << 63 | block << 24 | address >> 2;
}

static void access_word(sim_race *race, uint64_t key, sim_reach *mine, int how) {
    uint32_t in_block = mine->fenced_in_block, of_device = mine->fenced;
    raise_to(&in_block, mine->acquired_in_block);
    raise_to(&of_device, mine->acquired);
    sim_flag *flag = find(race->flags, key, how & FLAG_WRITE && in_block);
    if (!flag) return;
    if (how & FLAG_READ) {
        raise_to(&mine->acquired_in_block, flag->in_block);
        raise_to(&mine->acquired, flag->of_device);
    }
    if (how & FLAG_WRITE) {
        raise_to(&flag->in_block, in_block);
        raise_to(&flag->of_device, of_device);
    }
}

void sim_flags_access(const sim_spaces *spaces, const sim_shape *shape, const int64_t *lanes,
                      uint64_t count, const void *addresses, uint32_t address_stride, int how) {
    sim_race *race = spaces->race;
    if (!race || !race->flags) return;
    uint64_t bytes = shape->width * shape->elements;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t lane = lanes ? (uint64_t)lanes[i] : i;
        uint64_t address = address_of(shape, addresses, shape->once ? 0 : lane * address_stride);
        for (uint64_t at = address & ~(uint64_t)3; at < address + bytes; at += 4)
            access_word(race, key_of(race, shape->space, at, lane),
                        &race->reach[race->warp_of[lane]], how);
    }
}

/* Add a time at which accesses up to a clock were published. The two earliest times become one,
 * which counts as acquired with any flag. */
static void add(sim_publication *list, uint32_t clock, uint32_t time) {
    if (clock <= list[PUBLICATIONS - 1].clock) return;
    for (uint32_t i = 0; i + 1 < PUBLICATIONS; i++) list[i] = list[i + 1];
    list[0].time = 0;
    list[PUBLICATIONS - 1] = (sim_publication){clock, time};
}

/* Return the clock up to which accesses were published at `time` or before. */
static uint32_t published_by(const sim_publication *list, uint32_t time) {
    for (uint32_t i = PUBLICATIONS; time && i-- > 0;)
        if (list[i].time <= time) return list[i].clock;
    return 0;
}

int sim_flags_hand_over(const sim_race *race, uint32_t thread, uint32_t clock, uint32_t here) {
    uint32_t start = race->block_start[here];
    uint64_t block = thread / race->threads, warp = thread % race->threads / 32;
    int in_block = block == race->first_thread / race->threads + start / race->warps;
    const sim_reach *mine = &race->reach[here];
    uint32_t time = in_block ? mine->acquired_in_block : mine->acquired;
    const sim_publication *list =
        in_block ? race->published_in_block + (start + warp) * PUBLICATIONS
                 : race->published + (block * race->warps + warp) * PUBLICATIONS;
    return clock <= published_by(list, time);
}

void sim_flags_join(sim_race *race, uint32_t start, const uint8_t *present) {
    if (!race->flags) return;
    sim_reach all = {0};
    for (int merged = 0; merged < 2; merged++)
        for (uint32_t p = 0; p < race->warps; p++) {
            if (present && !present[p]) continue;
            sim_reach *from = merged ? &all : &race->reach[start + p];
            sim_reach *to = merged ? &race->reach[start + p] : &all;
            raise_to(&to->fenced, from->fenced);
            raise_to(&to->fenced_in_block, from->fenced_in_block);
            raise_to(&to->acquired, from->acquired);
            raise_to(&to->acquired_in_block, from->acquired_in_block);
        }
}

/* Publish the clocks of agents that a warp has seen to its whole block. */
static void release_agents(sim_race *race, uint32_t warp) {
    uint64_t agents = race->agents;
    for (uint64_t a = 0; a < agents; a++)
        raise_to(&race->agents_released[warp / race->warps * agents + a],
                 race->agents_seen[warp * agents + a]);
}

/* Publish what a warp has done, what it has seen at barriers, and what it has acquired. */
static void publish_warp(sim_race *race, uint32_t warp, int in_block) {
    uint32_t time = ++race->flags->time, start = race->block_start[warp];
    sim_reach *mine = &race->reach[warp];
    sim_publication *first = race->published +
        (uint64_t)(race->first_thread / race->threads) * race->warps * PUBLICATIONS;
    for (uint32_t w = start; w < start + race->warps; w++) {
        sim_publication *here = race->published_in_block + (uint64_t)w * PUBLICATIONS;
        uint32_t clock = w == warp ? race->now[w]
                                   : race->seen[(uint64_t)warp * race->warps + w - start];
        raise_to(&clock, published_by(here, mine->acquired_in_block));
        add(here, clock, time);
        if (!in_block) add(first + (uint64_t)w * PUBLICATIONS, clock, time);
    }
    mine->fenced_in_block = time;
    if (!in_block) mine->fenced = time;
    release_agents(race, warp);
    race->now[warp]++;
}

static void publish(const sim_spaces *spaces, const int64_t *lanes, uint64_t count, int in_block) {
    sim_race *race = spaces->race;
    if (!race || !race->flags) return;
    uint32_t last = UINT32_MAX;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t warp = race->warp_of[lanes ? (uint64_t)lanes[i] : i];
        if (warp != last) publish_warp(race, warp, in_block);
        last = warp;
    }
}

/* Execute a fence: publish to other blocks what the warps of these threads have done and seen. */
void sim_race_fence(const sim_spaces *spaces, const int64_t *lanes, uint64_t count) {
    publish(spaces, lanes, count, 0);
}

/* Execute a fence of block scope, which publishes to the other warps of the block only. */
void sim_race_block_fence(const sim_spaces *spaces, const int64_t *lanes, uint64_t count) {
    publish(spaces, lanes, count, 1);
}
