// A `cuda` device for a worker's PyTorch. Its tensors have device addresses, but no memory in this
// process.
//
// The device process has the memory (cudart/connection.c). It runs the operators of torch
// (operators.h), and receives and sends the bytes of tensors in messages. Only operators that need
// nothing but shapes and strides, such as views, run here.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/cuda/CUDAException.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include "cudart/cudart.h"
#include "operators.h"

namespace {

// ---- memory -----------------------------------------------------------------------------------

struct DeviceAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = sim_allocate(bytes);
    // Submissions catch this error, so its class and wording are those of torch's CUDA allocator.
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        pointer || !bytes,
        "CUDA out of memory. Tried to allocate ",
        bytes,
        " bytes on the simulated device.");
    return owned(pointer);
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    C10_CUDA_CHECK(static_cast<cudaError_t>(sim_catch_up()));
    C10_CUDA_CHECK(static_cast<cudaError_t>(sim_copy_bytes(to, from, bytes)));
  }
};

DeviceAllocator& device_allocator() {
  static DeviceAllocator allocator;
  return allocator;
}

// A torch that was built for CUDA registers an allocator of its own. With this priority, that one
// cannot replace ours.
constexpr uint8_t above_all_others = 255;

const bool allocates = [] {
  c10::SetAllocator(kDevice, &device_allocator(), above_all_others);
  return true;
}();

// ---- device, streams, events --------------------------------------------------------------------

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr c10::DeviceType static_type = kDevice;
  GuardImpl() = default;
  explicit GuardImpl(c10::DeviceType) {}
  c10::DeviceType type() const override {
    return kDevice;
  }
  c10::Device exchangeDevice(c10::Device) const override {
    return {kDevice, 0};
  }
  c10::Device getDevice() const override {
    return {kDevice, 0};
  }
  void setDevice(c10::Device device) const override {
    C10_CUDA_CHECK(cudaSetDevice(device.has_index() ? device.index() : 0));
  }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override {
    return 1;
  }
  c10::Stream getStream(c10::Device) const override {
    return stream(sim_current_stream());
  }
  c10::Stream getDefaultStream(c10::Device) const override {
    return stream(nullptr);
  }
  c10::Stream getNewStream(c10::Device, int priority) const override {
    return stream(sim_stream_from_pool(priority));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    c10::Stream previous = getStream(next.device());
    sim_set_current_stream(handle(next));
    return previous;
  }
  bool queryStream(const c10::Stream& stream) const override {
    C10_CUDA_CHECK(cudaStreamQuery(handle(stream)));
    return true;
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    C10_CUDA_CHECK(cudaStreamSynchronize(handle(stream)));
  }
  void synchronizeDevice(const c10::DeviceIndex) const override {
    C10_CUDA_CHECK(cudaDeviceSynchronize());
  }
  void record(
      void** event,
      const c10::Stream& stream,
      const c10::DeviceIndex,
      const c10::EventFlag flag) const override {
    auto* cuda_event = reinterpret_cast<cudaEvent_t*>(event);
    const bool timed = flag == c10::EventFlag::BACKEND_DEFAULT;
    if (!*cuda_event)
      C10_CUDA_CHECK(cudaEventCreateWithFlags(
          cuda_event, timed ? cudaEventDefault : cudaEventDisableTiming));
    C10_CUDA_CHECK(cudaEventRecord(*cuda_event, handle(stream)));
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event)
      C10_CUDA_CHECK(cudaStreamWaitEvent(handle(stream), static_cast<cudaEvent_t>(event), 0));
  }
  bool queryEvent(void* event) const override {
    if (event)
      C10_CUDA_CHECK(cudaEventQuery(static_cast<cudaEvent_t>(event)));
    return true;
  }
  void synchronizeEvent(void* event) const override {
    if (event)
      C10_CUDA_CHECK(cudaEventSynchronize(static_cast<cudaEvent_t>(event)));
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    if (event)
      (void)cudaEventDestroy(static_cast<cudaEvent_t>(event));
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(
        &milliseconds, static_cast<cudaEvent_t>(start), static_cast<cudaEvent_t>(end)));
    return milliseconds;
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

 private:
  static c10::Stream stream(void* handle) {
    return c10::Stream(
        c10::Stream::UNSAFE, c10::Device(kDevice, 0), reinterpret_cast<c10::StreamId>(handle));
  }
  static cudaStream_t handle(const c10::Stream& stream) {
    return reinterpret_cast<cudaStream_t>(stream.id());
  }
};

C10_REGISTER_GUARD_IMPL(CUDA, GuardImpl)

// ---- operators ----------------------------------------------------------------------------------

at::Tensor empty(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      size,
      &device_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA),
      c10::dtype_or_default(dtype),
      format);
}

at::Tensor empty_strided(
    at::IntArrayRef size,
    at::IntArrayRef stride,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>) {
  return at::detail::empty_strided_generic(
      size,
      stride,
      &device_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA),
      c10::dtype_or_default(dtype));
}

// Return whether the bytes in memory are the elements in order, so that they can be sent directly.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

void copy_on_device(const at::Tensor& to, const at::Tensor& from) {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  torch::jit::Stack stack{to, from, false};
  run_on_device(op, &stack);
}

// Write a host tensor to the device. If shape, dtype or strides differ, the bytes go to a temporary
// tensor on the device, from which the device process copies them.
void copy_from_host(const at::Tensor& to, const at::Tensor& from) {
  const auto plain = from.resolve_conj().resolve_neg().contiguous();
  const bool is_direct = is_plain(to) && to.dtype() == plain.dtype() && to.sizes() == plain.sizes();
  const auto target = is_direct ? to : at::empty(plain.sizes(), to.options().dtype(plain.dtype()));
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      sim_write(target.data_ptr(), plain.const_data_ptr(), plain.nbytes())));
  if (!is_direct)
    copy_on_device(to, target);
}

// Read a device tensor. If it is not plain, the device process first copies it to a temporary one.
void copy_to_host(const at::Tensor& to, const at::Tensor& from) {
  auto plain = from;
  if (!is_plain(from)) {
    plain = at::empty(from.sizes(), from.options());
    copy_on_device(plain, from);
  }
  const bool is_direct = is_plain(to) && to.dtype() == plain.dtype() && to.sizes() == plain.sizes();
  const auto target = is_direct ? to : at::empty(plain.sizes(), to.options().dtype(plain.dtype()));
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      sim_read(target.data_ptr(), plain.const_data_ptr(), plain.nbytes())));
  if (!is_direct)
    to.copy_(target);
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(sim_catch_up()));
  if (self.is_same(source))
    return self;
  sim_flush_managed();
  if (!source.is_cuda())
    copy_from_host(self, source);
  else if (!self.is_cuda())
    copy_to_host(self, source);
  else
    copy_on_device(self, source);
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool) {
  at::Tensor target = to;
  return copy_(target, self, false);
}

const at::Tensor& resize_(
    const at::Tensor& self,
    at::IntArrayRef size,
    std::optional<at::MemoryFormat> format) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto bytes = at::detail::computeStorageNbytesContiguous(
      size, self.dtype().itemsize(), self.storage_offset());
  auto* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (bytes > storage->nbytes()) {
    auto grown = device_allocator().allocate(bytes);
    if (storage->nbytes())
      device_allocator().copy_data(grown.get(), storage->data(), storage->nbytes());
    storage->set_data_ptr_noswap(std::move(grown));
    storage->set_nbytes(bytes);
  }
  impl->set_sizes_contiguous(size);
  if (format)
    impl->empty_tensor_restride(*format);
  return self;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  at::Tensor target = to;
  if (target.sizes() != self.sizes())
    resize_(target, self.sizes(), std::nullopt);
  return copy_(target, self, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  C10_CUDA_CHECK(static_cast<cudaError_t>(sim_catch_up()));
  sim_flush_managed();
  auto element = at::empty({}, self.options().device(at::kCPU));
  C10_CUDA_CHECK(static_cast<cudaError_t>(
      sim_read(element.data_ptr(), self.const_data_ptr(), self.element_size())));
  if (self.is_conj())
    element = element.conj();
  if (self.is_neg())
    element = element._neg_view();
  return element.item();
}

at::Tensor& set_source_storage(
    at::Tensor& self,
    at::Storage source,
    int64_t offset,
    at::IntArrayRef size,
    at::IntArrayRef stride) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(size, stride, offset);
  return self;
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  return set_source_storage(
      self, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

void record_stream(at::Tensor&, at::Stream) {}

// Run an operator of torch in the device process. Operators of other namespaces are refused, as on a
// GPU if they are registered without a CUDA kernel.
//
// A pending CUDA error is raised first, as torch does after each launch of its own.
void run(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  C10_CUDA_CHECK(static_cast<cudaError_t>(sim_catch_up()));
  const auto& name = op.schema().operator_name();
  TORCH_CHECK_NOT_IMPLEMENTED(
      name.getNamespace() == "aten",
      "Could not run '",
      name,
      "' with arguments from the 'CUDA' backend: it was registered without a kernel for that.");
  sim_flush_managed();
  run_on_device(op, stack);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run>());
}

struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

// A torch that was built for CUDA has kernels for a GPU, which this process does not have. Each of
// them is replaced. cuDNN's are not selected by the dispatcher, so they are switched off.
TORCH_LIBRARY_IMPL(aten, CUDA, library) {
  Silent silent;
  const c10::WarningUtils::WarningHandlerGuard about_replacing(&silent);
  at::globalContext().setUserEnabledCuDNN(false);
  const auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getRegistrationsForDispatchKey(c10::DispatchKey::CUDA))
    if (name.getNamespace() == "aten")
      library.impl(
          c10::toString(name).c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("copy_", &copy_);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("resize_", &resize_);
  library.impl("_local_scalar_dense", &local_scalar_dense);
  library.impl("set_.source_Storage_storage_offset", &set_source_storage);
  library.impl("set_.source_Tensor", &set_source_tensor);
  library.impl("record_stream", &record_stream);
  // Views share the memory of their tensor, so they cannot run in the device process: its results
  // have memory of their own.
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
}

// A tensor in memory that the trusted side has filled, which the tensor frees at the end.
at::Tensor tensor_at(
    int64_t address,
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    at::ScalarType dtype) {
  return adopted(reinterpret_cast<void*>(address), sizes, strides, dtype);
}

TORCH_LIBRARY(harness, library) {
  library.def("tensor_at(int address, int[] sizes, int[] strides, ScalarType dtype) -> Tensor");
  library.impl(
      "tensor_at", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(tensor_at));
}

} // namespace
