// The cuDNN interface for the simulator, which has no such library: see harness_library.h.
// Functions and constants as in https://docs.nvidia.com/deeplearning/cudnn/backend/latest/api/.
#pragma once

#include <harness_library.h>

#define CUDNN_MAJOR 9
#define CUDNN_MINOR 0
#define CUDNN_PATCHLEVEL 0
#define CUDNN_VERSION (CUDNN_MAJOR * 10000 + CUDNN_MINOR * 100 + CUDNN_PATCHLEVEL)
#define CUDNN_DIM_MAX 8

typedef struct cudnnContext* cudnnHandle_t;
typedef struct cudnnTensorStruct* cudnnTensorDescriptor_t;
typedef struct cudnnFilterStruct* cudnnFilterDescriptor_t;
typedef struct cudnnConvolutionStruct* cudnnConvolutionDescriptor_t;
typedef struct cudnnActivationStruct* cudnnActivationDescriptor_t;
typedef struct cudnnPoolingStruct* cudnnPoolingDescriptor_t;
typedef struct cudnnLRNStruct* cudnnLRNDescriptor_t;
typedef struct cudnnDropoutStruct* cudnnDropoutDescriptor_t;
typedef struct cudnnReduceTensorStruct* cudnnReduceTensorDescriptor_t;
typedef struct cudnnOpTensorStruct* cudnnOpTensorDescriptor_t;
typedef struct cudnnRNNStruct* cudnnRNNDescriptor_t;

typedef enum {
  CUDNN_STATUS_SUCCESS = 0,
  CUDNN_STATUS_NOT_INITIALIZED = 1001,
  CUDNN_STATUS_BAD_PARAM = 2000,
  CUDNN_STATUS_NOT_SUPPORTED = 3000,
  CUDNN_STATUS_INTERNAL_ERROR = 4000,
  CUDNN_STATUS_ALLOC_FAILED = 4003,
  CUDNN_STATUS_EXECUTION_FAILED = 5000
} cudnnStatus_t;

typedef enum {
  CUDNN_DATA_FLOAT = 0,
  CUDNN_DATA_DOUBLE = 1,
  CUDNN_DATA_HALF = 2,
  CUDNN_DATA_INT8 = 3,
  CUDNN_DATA_INT32 = 4,
  CUDNN_DATA_INT8x4 = 5,
  CUDNN_DATA_UINT8 = 6,
  CUDNN_DATA_BFLOAT16 = 9,
  CUDNN_DATA_INT64 = 10
} cudnnDataType_t;

typedef enum { CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC, CUDNN_TENSOR_NCHW_VECT_C } cudnnTensorFormat_t;
typedef enum { CUDNN_CONVOLUTION, CUDNN_CROSS_CORRELATION } cudnnConvolutionMode_t;
typedef enum { CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN } cudnnNanPropagation_t;
typedef enum { CUDNN_NON_DETERMINISTIC, CUDNN_DETERMINISTIC } cudnnDeterminism_t;

typedef enum {
  CUDNN_DEFAULT_MATH = 0,
  CUDNN_TENSOR_OP_MATH = 1,
  CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION = 2,
  CUDNN_FMA_MATH = 3
} cudnnMathType_t;

typedef enum {
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM = 0,
  CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1,
  CUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,
  CUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,
  CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,
  CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7,
  CUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8
} cudnnConvolutionFwdAlgo_t;

typedef enum {
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
  CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6
} cudnnConvolutionBwdDataAlgo_t;

typedef enum {
  CUDNN_CONVOLUTION_FWD_NO_WORKSPACE,
  CUDNN_CONVOLUTION_FWD_PREFER_FASTEST,
  CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT
} cudnnConvolutionFwdPreference_t;

typedef struct {
  cudnnConvolutionFwdAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionFwdAlgoPerf_t;

typedef struct {
  cudnnConvolutionBwdDataAlgo_t algo;
  cudnnStatus_t status;
  float time;
  size_t memory;
  cudnnDeterminism_t determinism;
  cudnnMathType_t mathType;
  int reserved[3];
} cudnnConvolutionBwdDataAlgoPerf_t;

typedef enum {
  CUDNN_ACTIVATION_SIGMOID = 0,
  CUDNN_ACTIVATION_RELU = 1,
  CUDNN_ACTIVATION_TANH = 2,
  CUDNN_ACTIVATION_CLIPPED_RELU = 3,
  CUDNN_ACTIVATION_ELU = 4,
  CUDNN_ACTIVATION_IDENTITY = 5,
  CUDNN_ACTIVATION_SWISH = 6
} cudnnActivationMode_t;

typedef enum {
  CUDNN_POOLING_MAX = 0,
  CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING = 1,
  CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING = 2,
  CUDNN_POOLING_MAX_DETERMINISTIC = 3
} cudnnPoolingMode_t;

typedef enum { CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG } cudnnSoftmaxAlgorithm_t;
typedef enum { CUDNN_SOFTMAX_MODE_INSTANCE, CUDNN_SOFTMAX_MODE_CHANNEL } cudnnSoftmaxMode_t;
typedef enum {
  CUDNN_BATCHNORM_PER_ACTIVATION,
  CUDNN_BATCHNORM_SPATIAL,
  CUDNN_BATCHNORM_SPATIAL_PERSISTENT
} cudnnBatchNormMode_t;

#define HARNESS_CUDNN(name) \
  HARNESS_LIBRARY_FUNCTION(cudnnStatus_t, CUDNN_STATUS_NOT_SUPPORTED, name)
#define HARNESS_CUDNN_SET(name) \
  HARNESS_LIBRARY_PREPARATION(cudnnStatus_t, CUDNN_STATUS_SUCCESS, name)
#define HARNESS_CUDNN_DESCRIPTOR(name)                                                       \
  HARNESS_LIBRARY_CREATION(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnCreate##name##Descriptor) \
  HARNESS_CUDNN_SET(cudnnDestroy##name##Descriptor)

HARNESS_LIBRARY_CREATION(cudnnStatus_t, CUDNN_STATUS_SUCCESS, cudnnCreate)
HARNESS_CUDNN_SET(cudnnDestroy)
HARNESS_CUDNN_SET(cudnnSetStream)

inline const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_SUCCESS";
}
inline size_t cudnnGetVersion() { return CUDNN_VERSION; }

HARNESS_CUDNN_DESCRIPTOR(Tensor)
HARNESS_CUDNN_DESCRIPTOR(Filter)
HARNESS_CUDNN_DESCRIPTOR(Convolution)
HARNESS_CUDNN_DESCRIPTOR(Activation)
HARNESS_CUDNN_DESCRIPTOR(Pooling)
HARNESS_CUDNN_DESCRIPTOR(LRN)
HARNESS_CUDNN_DESCRIPTOR(Dropout)
HARNESS_CUDNN_DESCRIPTOR(ReduceTensor)
HARNESS_CUDNN_DESCRIPTOR(OpTensor)
HARNESS_CUDNN_DESCRIPTOR(RNN)

HARNESS_CUDNN_SET(cudnnSetTensor4dDescriptor)
HARNESS_CUDNN_SET(cudnnSetTensor4dDescriptorEx)
HARNESS_CUDNN_SET(cudnnSetTensorNdDescriptor)
HARNESS_CUDNN_SET(cudnnSetTensorNdDescriptorEx)
HARNESS_CUDNN_SET(cudnnSetFilter4dDescriptor)
HARNESS_CUDNN_SET(cudnnSetFilterNdDescriptor)
HARNESS_CUDNN_SET(cudnnSetConvolution2dDescriptor)
HARNESS_CUDNN_SET(cudnnSetConvolutionNdDescriptor)
HARNESS_CUDNN_SET(cudnnSetConvolutionGroupCount)
HARNESS_CUDNN_SET(cudnnSetConvolutionMathType)
HARNESS_CUDNN_SET(cudnnSetActivationDescriptor)
HARNESS_CUDNN_SET(cudnnSetPooling2dDescriptor)
HARNESS_CUDNN_SET(cudnnSetPoolingNdDescriptor)
HARNESS_CUDNN_SET(cudnnSetReduceTensorDescriptor)
HARNESS_CUDNN_SET(cudnnSetOpTensorDescriptor)

HARNESS_CUDNN(cudnnGetConvolution2dForwardOutputDim)
HARNESS_CUDNN(cudnnGetConvolutionNdForwardOutputDim)
HARNESS_CUDNN(cudnnGetConvolutionForwardAlgorithm)
HARNESS_CUDNN(cudnnGetConvolutionForwardAlgorithm_v7)
HARNESS_CUDNN(cudnnGetConvolutionForwardAlgorithmMaxCount)
HARNESS_CUDNN(cudnnGetConvolutionForwardWorkspaceSize)
HARNESS_CUDNN(cudnnFindConvolutionForwardAlgorithm)
HARNESS_CUDNN(cudnnFindConvolutionForwardAlgorithmEx)
HARNESS_CUDNN(cudnnConvolutionForward)
HARNESS_CUDNN(cudnnConvolutionBiasActivationForward)
HARNESS_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm)
HARNESS_CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7)
HARNESS_CUDNN(cudnnGetConvolutionBackwardDataAlgorithmMaxCount)
HARNESS_CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize)
HARNESS_CUDNN(cudnnFindConvolutionBackwardDataAlgorithm)
HARNESS_CUDNN(cudnnFindConvolutionBackwardDataAlgorithmEx)
HARNESS_CUDNN(cudnnConvolutionBackwardData)
HARNESS_CUDNN(cudnnConvolutionBackwardBias)
HARNESS_CUDNN(cudnnConvolutionBackwardFilter)
HARNESS_CUDNN(cudnnAddTensor)
HARNESS_CUDNN(cudnnOpTensor)
HARNESS_CUDNN(cudnnReduceTensor)
HARNESS_CUDNN(cudnnScaleTensor)
HARNESS_CUDNN(cudnnSetTensor)
HARNESS_CUDNN(cudnnTransformTensor)
HARNESS_CUDNN(cudnnActivationForward)
HARNESS_CUDNN(cudnnPoolingForward)
HARNESS_CUDNN(cudnnGetPooling2dForwardOutputDim)
HARNESS_CUDNN(cudnnSoftmaxForward)
HARNESS_CUDNN(cudnnBatchNormalizationForwardInference)
HARNESS_CUDNN(cudnnBatchNormalizationForwardTraining)
HARNESS_CUDNN(cudnnNormalizationForwardInference)
HARNESS_CUDNN(cudnnLRNCrossChannelForward)
HARNESS_CUDNN(cudnnDropoutForward)
HARNESS_CUDNN(cudnnRNNForward)
HARNESS_CUDNN(cudnnMultiHeadAttnForward)
HARNESS_CUDNN(cudnnBackendExecute)
