#include "tools/reference_loader/tensors.h"

#include <ATen/ATen.h>
#include <ATen/MapAllocator.h>
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <torch/version.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/reference_loader/batch_tensors.h"
#include "tools/reference_loader/segment.h"

namespace dlprobe::loader {
namespace {

at::ScalarType scalar_type(std::string_view dtype) {
  if (dtype == "float16") return at::kHalf;
  if (dtype == "bfloat16") return at::kBFloat16;
  if (dtype == "uint8") return at::kByte;
  return at::kFloat;
}

std::vector<int64_t> batch_sizes(const LoaderPlan& plan, int samples) {
  std::vector<int64_t> sizes = {samples};
  sizes.insert(sizes.end(), plan.sample_shape.begin(), plan.sample_shape.end());
  return sizes;
}

/// A mapped segment and what there is to do when its tensor is gone. Under file_system the file is
/// laid out as at::RefcountedMapAllocator does it; that class itself throws out of its destructor
/// when somebody else has removed the file, so the count is kept here.
class Mapping {
 public:
  explicit Mapping(ReceivedSegment segment) : segment_(std::move(segment)) {
    const bool named = !segment_.fd;
    if (named) {
      segment_.fd.reset(shm_open(segment_.name.c_str(), O_RDWR, 0));
      TORCH_CHECK(segment_.fd, "unable to open shared memory object <", segment_.name,
                  "> in read-write mode: ", strerrordesc_np(errno));
      header_ = kRefcountHeaderBytes;
    }
    // As torch.multiprocessing: under file_descriptor it stays open as long as the tensor lives.
    const int flags = at::ALLOCATOR_MAPPED_SHAREDMEM | at::ALLOCATOR_MAPPED_NOCREATE |
                      at::ALLOCATOR_MAPPED_FROMFD | (named ? 0 : at::ALLOCATOR_MAPPED_KEEPFD);
    memory_ =
        at::MapAllocator::makeDataPtr(at::WITH_FD, segment_.name.c_str(), segment_.fd.release(),
                                      flags, segment_.bytes + header_, nullptr);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (header_ > 0) {
      const std::atomic_ref count(*static_cast<int*>(memory_.get()));
      if (count.fetch_sub(1) == 1) shm_unlink(segment_.name.c_str());
    }
    memory_.clear();
    if (segment_.on_freed) segment_.on_freed();
  }

  void* data() const { return static_cast<std::byte*>(memory_.get()) + header_; }

 private:
  ReceivedSegment segment_;
  uint64_t header_ = 0;
  at::DataPtr memory_;
};

at::Tensor attach(ReceivedSegment segment, at::IntArrayRef sizes, at::ScalarType type) {
  auto mapping = std::make_shared<Mapping>(std::move(segment));
  void* data = mapping->data();
  return at::from_blob(
      data, sizes, [mapping = std::move(mapping)](void*) mutable { mapping.reset(); },
      at::TensorOptions().dtype(type));
}

std::span<const std::byte> bytes_of_tensor(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

uint64_t add_to_checksum(uint64_t sum, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    uint64_t word = 0;
    const size_t count = std::min(sizeof word, bytes.size());
    std::memcpy(&word, bytes.data(), count);
    sum = (sum ^ word) * 0x100000001b3ULL;
    bytes = bytes.subspan(count);
  }
  return sum;
}

}  // namespace

Expected<BatchHandle> attach_batch(const LoaderPlan& plan, int samples,
                                   std::array<ReceivedSegment, kSegmentsPerBatch> segments) {
  try {
    auto batch = std::make_shared<BatchTensors>();
    batch->samples =
        attach(std::move(segments[0]), batch_sizes(plan, samples), scalar_type(plan.dtype));
    batch->labels = attach(std::move(segments[1]), {samples}, at::kLong);
    return batch;
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kIo, error.what_without_backtrace());
  }
}

Expected<PrivateBatch> make_private_batch(const LoaderPlan& plan, int samples) {
  try {
    PrivateBatch batch{.tensors = std::make_shared<BatchTensors>()};
    at::Tensor& tensor = batch.tensors->samples;
    tensor = at::empty(batch_sizes(plan, samples), scalar_type(plan.dtype));
    batch.samples = {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
    batch.tensors->labels = at::empty({samples}, at::kLong);
    batch.labels = {batch.tensors->labels.data_ptr<int64_t>(), static_cast<size_t>(samples)};
    return batch;
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kIo, error.what_without_backtrace());
  }
}

Expected<BatchHandle> copy_batch(const BatchHandle& batch, bool pinned) {
  try {
    auto copy = std::make_shared<BatchTensors>();
    copy->samples = pinned ? batch->samples.pin_memory() : batch->samples.clone();
    copy->labels = pinned ? batch->labels.pin_memory() : batch->labels.clone();
    return copy;
  } catch (const c10::Error& error) {
    return failure(ErrorCode::kIo, error.what_without_backtrace());
  }
}

std::vector<int64_t> labels_of(const BatchHandle& batch) {
  const auto* first = batch->labels.data_ptr<int64_t>();
  return {first, first + batch->labels.numel()};
}

uint64_t checksum_of(const BatchHandle& batch) {
  const uint64_t sum = add_to_checksum(0xcbf29ce484222325ULL, bytes_of_tensor(batch->samples));
  return add_to_checksum(sum, bytes_of_tensor(batch->labels));
}

void convert_floats(std::span<const float> floats, std::string_view dtype,
                    std::span<std::byte> out) {
  const auto count = static_cast<int64_t>(floats.size());
  // from_blob wants a pointer to non-const although it is only read here.
  const at::Tensor from =
      at::from_blob(const_cast<float*>(floats.data()), {count},
                    at::kFloat);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  at::from_blob(out.data(), {count}, scalar_type(dtype)).copy_(from);
}

void use_torch_threads(int count) {
  at::set_num_threads(count);
}

void use_torch_pool() {
  constexpr int64_t kManyNumbers = 4'000'000;  // fewer would be added up in one thread
  if (at::get_num_threads() < 2) at::set_num_threads(2);
  [[maybe_unused]] const at::Tensor sum = at::ones({kManyNumbers}).sum();
}

std::string libtorch_version() {
  return TORCH_VERSION;
}

}  // namespace dlprobe::loader
