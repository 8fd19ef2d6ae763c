/* Tensor maps of the simulator, in place of the driver's undocumented 128 bytes. */
#ifndef SIM_TENSOR_MAP_H
#define SIM_TENSOR_MAP_H

#include "layout.h"

#define SIM_TENSOR_MAP_MARK 0x70616D5F6D6973FFull

/* Fill a map. Return -1 if the driver would refuse the arguments. */
int sim_encode_tiled(sim_tensor_map *map, uint32_t type, uint32_t rank, uint64_t address,
                     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                     uint32_t promotion, uint32_t fill);

#endif
