#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "lib/base/error.h"
#include "lib/model/loader_plan.h"
#include "tools/reference_loader/image_source.h"

namespace dlprobe::loader {

/// Told the number of an image that cannot be decoded, and why.
using BrokenImageHandler = std::function<void(uint32_t image, const std::string& why)>;

/// Turns compressed images into samples: decode, random crop, resize, random flip, normalise,
/// planes. One per process; keeps its buffers. Everything random follows from the number it is
/// given.
class SampleMaker {
 public:
  SampleMaker(const ImageSource& images, const LoaderPlan& plan);
  ~SampleMaker();
  SampleMaker(const SampleMaker&) = delete;
  SampleMaker& operator=(const SampleMaker&) = delete;

  /// Makes a sample of image `index` into `out` (sample_bytes of the plan). An image that cannot be
  /// read or decoded is told to `on_broken` and the next one is taken. Returns the image that it
  /// became; kMalformed if no image of the source can be decoded.
  Expected<uint32_t> make(uint32_t index, uint64_t random, std::span<std::byte> out,
                          const BrokenImageHandler& on_broken);

 private:
  struct Buffers;
  Status make_one(uint32_t index, uint64_t random, std::span<std::byte> out);

  const ImageSource& images_;
  const LoaderPlan& plan_;
  std::unique_ptr<Buffers> buffers_;
};

/// Where a batch stands in the whole run; its augmentation follows from that, in whichever process.
struct BatchPlace {
  uint64_t seed = 0;
  int epoch = 0;
  uint64_t first_position = 0;  ///< of its first sample within the epoch
};

/// The memory of a batch.
struct BatchMemory {
  std::span<std::byte> samples;
  std::span<int64_t> labels;  ///< become the numbers of the images
};

/// Makes a sample of each of `images` into `memory`.
Status fill_batch(SampleMaker& maker, const BatchPlace& place, std::span<const uint32_t> images,
                  const BatchMemory& memory, const BrokenImageHandler& on_broken);

/// Work for OpenCV's threads: they are there from then on.
void use_opencv_threads();

/// OpenCV works in the calling thread only: what a worker process wants.
void use_no_opencv_threads();

/// "4.6.0"
std::string opencv_version();

}  // namespace dlprobe::loader
