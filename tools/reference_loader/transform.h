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

/// Turns compressed images into samples: decode, random crop, resize, random flip, normalise, planes.
/// One per process; keeps its buffers. Everything random follows from the number it is given.
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
                          const std::function<void(uint32_t, const std::string&)>& on_broken);

 private:
  struct Buffers;
  Status make_one(uint32_t index, uint64_t random, std::span<std::byte> out);

  const ImageSource& images_;
  const LoaderPlan& plan_;
  std::unique_ptr<Buffers> buffers_;
};

/// A well-mixed number for sample `position` of `epoch`, the same in whichever process it is asked.
uint64_t sample_random(uint64_t seed, int epoch, uint64_t position);

/// OpenCV works in the calling thread only: what a worker process wants.
void use_no_opencv_threads();

/// "4.6.0"
std::string opencv_version();

}  // namespace dlprobe::loader
