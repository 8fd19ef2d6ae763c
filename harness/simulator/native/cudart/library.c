/* Calls of CUDA's mathematical libraries. Most of them only exist by name, so that code
 * compiles, and report that a library was called; see harness_library.h among the headers.
 * Products of matrices are the exception: torch's operator computes them, as if the submission
 * had called torch. cuRAND's functions are in C, because its header is NVIDIA's own. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MATRIX_DIMENSIONS 3
/* c10::ScalarType::Float. */
#define FLOAT 6

/* A strided batch of float matrices on the device; strides are in elements. */
struct sim_matrix {
  const float *start;
  int64_t strides[MATRIX_DIMENSIONS];
};

/* Compute c = alpha a b + beta c. `sizes` are the batch size, and the rows, columns and inner
 * length of the product. Return a cudaError_t or an operator's error. */
int sim_multiply(cudaStream_t stream, const int64_t sizes[4], float alpha,
                 const struct sim_matrix *a, const struct sim_matrix *b, float beta,
                 const struct sim_matrix *c);

/* An operator's name and arguments, encoded as in operators.h. */
struct message {
  char bytes[1024];
  size_t size;
};

static void put(struct message *message, const void *data, size_t size) {
  memcpy(message->bytes + message->size, data, size);
  message->size += size;
}

static void put_kind(struct message *message, uint8_t kind) { put(message, &kind, 1); }

static void put_text(struct message *message, const char *text) {
  const uint64_t length = strlen(text);
  put_kind(message, SIM_VALUE_TEXT);
  put(message, &length, sizeof length);
  put(message, text, length);
}

static void put_number(struct message *message, double number) {
  put_kind(message, SIM_VALUE_REAL);
  put(message, &number, sizeof number);
}

static void put_matrices(struct message *message, const struct sim_matrix *matrix, int64_t count,
                         int64_t rows, int64_t columns) {
  const int64_t sizes[MATRIX_DIMENSIONS] = {count, rows, columns};
  const struct sim_tensor described = {
      .address = count && rows && columns ? (uint64_t)matrix->start : 0,
      .dtype = FLOAT,
      .dimensions = MATRIX_DIMENSIONS,
  };
  put_kind(message, SIM_VALUE_TENSOR);
  put(message, &described, sizeof described);
  put(message, sizes, sizeof sizes);
  put(message, matrix->strides, sizeof matrix->strides);
}

int sim_multiply(cudaStream_t stream, const int64_t sizes[4], float alpha,
                 const struct sim_matrix *a, const struct sim_matrix *b, float beta,
                 const struct sim_matrix *c) {
  if (!sim_is_stream(stream)) return cudaErrorInvalidResourceHandle;
  const int64_t count = sizes[0], rows = sizes[1], columns = sizes[2], inner = sizes[3];
  struct message message = {.size = 0};
  const int is_plain = alpha == 1.0f && beta == 0.0f;
  put_text(&message, is_plain ? "aten::bmm" : "aten::baddbmm");
  put_text(&message, "out");
  if (!is_plain) put_matrices(&message, c, count, rows, columns);
  put_matrices(&message, a, count, rows, inner);
  put_matrices(&message, b, count, inner, columns);
  if (!is_plain) put_number(&message, beta), put_number(&message, alpha);
  put_matrices(&message, c, count, rows, columns);
  sim_flush_managed();
  sim_work_on(stream);
  char *results;
  size_t size;
  const int error =
      sim_ask_any(SIM_CALL_OPERATOR, &(struct sim_part){message.bytes, message.size}, 1, &results, &size);
  /* The product is in `c`, so the results have nothing new. */
  free(results);
  return error;
}

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
