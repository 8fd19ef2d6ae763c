// A `cuda` device for a CPU-only PyTorch.
//
// Tensors on it live in the simulator's arena (arena.h), so that every byte is guarded, poisoned
// and known as written or not. Operators other than the few below run on the CPU, on copies, which
// is what PyTorch's own fallback for young backends does. Work is done at once, in program order.
#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/CPUFallback.h>
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

#include "arena.h"
#include "cudart/cudart.h"
#include "operators.h"
#include "shadow.h"

namespace {

constexpr auto kDevice = c10::DeviceType::CUDA;

// ---- memory -----------------------------------------------------------------------------------

void release(void* pointer) {
  sim_free(pointer);
}

// While one lives, the host may touch the device's memory.
class Opened {
 public:
  Opened() {
    sim_arena_open();
  }
  ~Opened() {
    sim_arena_shut();
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

struct ArenaAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* pointer = sim_alloc(bytes);
    // The class and the wording are those of the real allocator, because submissions catch them.
    TORCH_CHECK_WITH(
        OutOfMemoryError,
        pointer || !bytes,
        "CUDA out of memory. Tried to allocate ",
        bytes,
        " bytes on the simulated device.");
    return {pointer, pointer, &release, c10::Device(kDevice, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return &release;
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    const Opened opened;
    default_copy_data(to, from, bytes);
    sim_copy_written(to, from, bytes);
  }
};

ArenaAllocator& arena_allocator() {
  static ArenaAllocator allocator;
  return allocator;
}

REGISTER_ALLOCATOR(kDevice, &arena_allocator())

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

// The same memory seen by the CPU's kernels.
at::Tensor alias_on_cpu(const at::Tensor& tensor) {
  if (tensor.device().is_cpu())
    return tensor;
  auto alias =
      on_cpu(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.scalar_type());
  if (tensor.is_conj())
    alias = alias.conj();
  if (tensor.is_neg())
    alias = alias._neg_view();
  return alias;
}

// What is copied from memory that nothing wrote stays unwritten.
void carry_written(const at::Tensor& to, const at::Tensor& from) {
  if (!to.is_cuda() || !to.numel())
    return;
  auto shadow = shadow_of(to);
  if (!from.is_cuda()) {
    shadow.fill_(1);
    return;
  }
  auto source = shadow_of(from.expand(to.sizes()));
  shadow.copy_(to.element_size() == from.element_size() ? source : source.amin(-1, true));
}

at::Tensor empty(
    at::IntArrayRef size,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>,
    std::optional<at::Device>,
    std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(
      size,
      &arena_allocator(),
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
      &arena_allocator(),
      c10::DispatchKeySet(c10::DispatchKey::CUDA),
      c10::dtype_or_default(dtype));
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& source, bool) {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  if (self.is_same(source))
    return self;
  const Opened opened;
  alias_on_cpu(self).copy_(alias_on_cpu(source));
  carry_written(self, source);
  record_copy(self, source);
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
    auto grown = arena_allocator().allocate(bytes);
    if (storage->nbytes())
      arena_allocator().copy_data(grown.get(), storage->data(), storage->nbytes());
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
  C10_CUDA_CHECK(cudaDeviceSynchronize());
  record_scalar(self);
  const Opened opened;
  return at::_local_scalar_dense(alias_on_cpu(self));
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

// Only what torch itself brings for a GPU may run here: of other operators a GPU has what was
// registered for it, and of torch's it has no kernel that somebody put in the place of the CPU's.
void need_kernel_of_torch(const c10::OperatorHandle& op) {
  const auto& name = op.schema().operator_name();
  TORCH_CHECK_NOT_IMPLEMENTED(
      name.getNamespace() == "aten",
      "Could not run '",
      name,
      "' with arguments from the 'CUDA' backend: it was registered without a kernel for that.");
  TORCH_CHECK_NOT_IMPLEMENTED(
      op.dumpState().find("\nCPU (inactive): ") == std::string::npos,
      "The simulated device runs '",
      name,
      "' with torch's kernel for the CPU, which was replaced.");
}

// As torch does after every launch of its own: so does an error come out that nobody has asked for.
void run_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  need_kernel_of_torch(op);
  const OperatorCall call(op, *stack);
  {
    const Unrecorded inner;
    const Opened opened;
    at::native::cpu_fallback(op, stack);
  }
  call.finish(*stack);
}

TORCH_LIBRARY_IMPL(_, CUDA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

TORCH_LIBRARY_IMPL(aten, CUDA, library) {
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
  // Views share memory, which the fallback's copies cannot do.
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("view", &at::native::view);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("unfold", &at::native::unfold);
  library.impl("view_as_real", &at::native::view_as_real);
  library.impl("view_as_complex", &at::native::view_as_complex);
}

} // namespace
