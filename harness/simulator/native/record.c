#include "record.h"

#include <pthread.h>
#include <string.h>

#define KINDS 256

static struct {
    pthread_mutex_t lock;
    uint64_t count;
    sim_work kinds[KINDS];
} record = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sim_work *kind_of(sim_worker worker, const char *name) {
    for (uint64_t i = 0; i < record.count; i++)
        if (record.kinds[i].worker == worker &&
            !strncmp(record.kinds[i].name, name, sizeof record.kinds[i].name - 1))
            return &record.kinds[i];
    if (record.count == KINDS) return &record.kinds[KINDS - 1];
    sim_work *fresh = &record.kinds[record.count++];
    memset(fresh, 0, sizeof *fresh);
    strncpy(fresh->name, name, sizeof fresh->name - 1);
    fresh->worker = worker;
    return fresh;
}

void sim_record(sim_worker worker, const char *name, uint64_t elements, uint64_t multiplied) {
    pthread_mutex_lock(&record.lock);
    sim_work *kind = kind_of(worker, name);
    kind->count++;
    kind->elements += elements;
    kind->multiplied += multiplied;
    pthread_mutex_unlock(&record.lock);
}

uint64_t sim_take_record(sim_work *into, uint64_t room) {
    pthread_mutex_lock(&record.lock);
    uint64_t count = record.count < room ? record.count : room;
    memcpy(into, record.kinds, count * sizeof *into);
    record.count = 0;
    pthread_mutex_unlock(&record.lock);
    return count;
}
