#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/model/loader_plan.h"

namespace dlprobe::loader {

/// The tensors of one batch; defined in batch_tensors.h, for the files that include libtorch.
struct BatchTensors;
using BatchHandle = std::shared_ptr<BatchTensors>;

/// What a batch consists of: the samples, then the labels.
inline constexpr size_t kSegmentsPerBatch = 2;

/// A segment that another process filled.
struct ReceivedSegment {
  std::string name;                ///< "/torch_1_2_3"
  uint64_t bytes = 0;              ///< payload
  UniqueFd fd;                     ///< of file_descriptor; none: it is opened by its name
  std::function<void()> on_freed;  ///< called when the tensor is gone
};

/// Tensors on the segments' own memory, mapped by at::MapAllocator. A named segment is unlinked
/// when the last reference to it is gone.
Expected<BatchHandle> attach_batch(const LoaderPlan& plan, int samples,
                                   std::array<ReceivedSegment, kSegmentsPerBatch> segments);

/// A batch in memory of this process alone, and where to write it.
struct PrivateBatch {
  BatchHandle tensors;
  std::span<std::byte> samples;
  std::span<int64_t> labels;
};
Expected<PrivateBatch> make_private_batch(const LoaderPlan& plan, int samples);

/// A copy in pinned memory, or in ordinary memory where `pinned` is false.
Expected<BatchHandle> copy_batch(const BatchHandle& batch, bool pinned);

/// The labels, which are the numbers of the images.
std::vector<int64_t> labels_of(const BatchHandle& batch);

/// A sum over all bytes of the samples and labels (FNV-1a over 64-bit words).
uint64_t checksum_of(const BatchHandle& batch);

/// `floats` as dtype float16 or bfloat16, into `out`.
void convert_floats(std::span<const float> floats, std::string_view dtype,
                    std::span<std::byte> out);

/// How many threads libtorch's operators use in this process.
void use_torch_threads(int count);

/// A parallel region of libtorch, in two or more threads: those of OpenMP are there from then on.
void use_torch_pool();

/// "1.13.1"
std::string libtorch_version();

}  // namespace dlprobe::loader
