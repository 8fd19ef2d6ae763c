/* Calls of CUDA's mathematical libraries, of which only the names are here: see harness_library.h
 * among the headers. cuRAND's header is NVIDIA's own, and so its functions are in C. */
#include "internal.h"

#define CURAND_INTERNAL_ERROR 999

void sim_library_call(const char *function);

#define CALL(name)          \
  int name(void);           \
  int name(void) {          \
    sim_library_call(#name); \
    return CURAND_INTERNAL_ERROR; \
  }
#define PREPARATION(name) \
  int name(void);         \
  int name(void) { return 0; }

int curandCreateGenerator(void **generator, int type);
int curandCreateGenerator(void **generator, int type) {
  static char made;
  (void)type;
  *generator = &made;
  return 0;
}

PREPARATION(curandDestroyGenerator)
PREPARATION(curandSetStream)
PREPARATION(curandSetGeneratorOffset)
PREPARATION(curandSetGeneratorOrdering)
PREPARATION(curandSetPseudoRandomGeneratorSeed)
PREPARATION(curandSetQuasiRandomGeneratorDimensions)

CALL(curandGenerate)
CALL(curandGenerateLongLong)
CALL(curandGenerateUniform)
CALL(curandGenerateUniformDouble)
CALL(curandGenerateNormal)
CALL(curandGenerateNormalDouble)
CALL(curandGenerateLogNormal)
CALL(curandGenerateLogNormalDouble)
CALL(curandGeneratePoisson)
CALL(curandGenerateSeeds)
