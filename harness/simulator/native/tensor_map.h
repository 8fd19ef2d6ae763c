/* What our tensor maps hold, in place of the undocumented 128 bytes of the driver's. */
#ifndef SIM_TENSOR_MAP_H
#define SIM_TENSOR_MAP_H

#include "layout.h"

#define SIM_TENSOR_MAP_MARK 0x70616D5F6D6973FFull

/* Fills a map; -1 where the driver would refuse the arguments. */
int sim_encode_tiled(sim_tensor_map *map, uint32_t type, uint32_t rank, uint64_t address,
                     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                     uint32_t promotion, uint32_t fill);

#endif
