/* Encoding of tensor maps; actions/tensor_map.py decodes them. */
#include "tensor_map.h"

#include <string.h>

_Static_assert(sizeof(sim_tensor_map) == 128, "a CUtensorMap has 128 bytes");

/* Bytes of an element by its CUtensorMapDataType, or 0 if it is not one. */
static uint64_t bytes_of(uint32_t type) {
    static const uint8_t bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    return type < sizeof bytes ? bytes[type] : 0;
}

/* The restrictions are those of cuTensorMapEncodeTiled in the CUDA driver API. */
int sim_encode_tiled(sim_tensor_map *map, uint32_t type, uint32_t rank, uint64_t address,
                     const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                     const uint32_t *element_strides, uint32_t interleave, uint32_t swizzle,
                     uint32_t promotion, uint32_t fill) {
    static const uint64_t spans[] = {0, 32, 64, 128};
    uint64_t width = bytes_of(type);
    if (!map || ((uintptr_t)map & 63) || !width || rank < 1 || rank > 5) return -1;
    if ((address & 15) || interleave != 0 || swizzle > 3 || fill > 1) return -1;
    if (promotion > 3) return -1;
    memset(map, 0, sizeof *map);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < 1 || dims[i] > (uint64_t)1 << 32) return -1;
        if (box[i] < 1 || box[i] > 256) return -1;
        if (element_strides[i] < 1 || element_strides[i] > 8) return -1;
        if (i && ((strides[i - 1] & 15) || strides[i - 1] >= (uint64_t)1 << 40)) return -1;
        map->dims[i] = dims[i];
        map->box[i] = (uint16_t)box[i];
        map->element_strides[i] = (uint8_t)element_strides[i];
        if (i) map->strides[i - 1] = strides[i - 1];
    }
    if (box[0] * width & 15) return -1;
    if (swizzle && box[0] * width > spans[swizzle]) return -1;
    map->mark = SIM_TENSOR_MAP_MARK;
    map->address = address;
    map->type = (uint8_t)type;
    map->rank = (uint8_t)rank;
    map->swizzle = (uint8_t)swizzle;
    map->fill = (uint8_t)fill;
    map->promotion = (uint8_t)promotion;
    return 0;
}
