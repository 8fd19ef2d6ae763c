/* What our tensor maps hold, in place of the undocumented 128 bytes of the driver's. */
#ifndef SIM_TENSOR_MAP_H
#define SIM_TENSOR_MAP_H

#include <stdint.h>

#define SIM_TENSOR_MAP_MARK 0x70616D5F6D6973FFull

/* Kept in step with actions/tensor_map.py. */
typedef struct sim_tensor_map {
    uint64_t mark;
    uint64_t address;
    uint64_t dims[5];    /* elements; the first is the contiguous dimension */
    uint64_t strides[4]; /* bytes, of the dimensions after the first */
    uint16_t box[5];
    uint8_t element_strides[5];
    uint8_t type; /* CUtensorMapDataType */
    uint8_t rank;
    uint8_t swizzle; /* CUtensorMapSwizzle */
    uint8_t fill;    /* CUtensorMapFloatOOBfill */
    uint8_t unused[21];
} sim_tensor_map;

/* Fills a map; -1 where the driver would refuse the arguments. */
int sim_encode_tiled(sim_tensor_map *map, uint32_t type, uint32_t rank, uint64_t address,
                     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                     uint32_t fill);

#endif
