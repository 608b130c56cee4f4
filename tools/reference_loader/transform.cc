#include "tools/reference_loader/transform.h"

#include <algorithm>
#include <array>
#include <vector>

#include <opencv2/core/utility.hpp>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "tools/reference_loader/tensors.h"

namespace dlprobe::loader {
namespace {

// ImageNet's, as torchvision.transforms has them: red, green, blue.
constexpr std::array<double, 3> kMean = {0.485, 0.456, 0.406};
constexpr std::array<double, 3> kStd = {0.229, 0.224, 0.225};
// The crop's share of the largest rectangle with the sample's proportions, along each side.
constexpr double kLeastCrop = 0.6;

uint64_t mix(uint64_t value) {  // splitmix64
  value += 0x9e3779b97f4a7c15ULL;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9ULL;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebULL;
  return value ^ (value >> 31);
}

/// Successive numbers in [0, 1) from one seed.
class Draw {
 public:
  explicit Draw(uint64_t seed) : state_(seed) {}
  double next() {
    state_ = mix(state_);
    return static_cast<double>(state_ >> 11) * 0x1.0p-53;
  }

 private:
  uint64_t state_;
};

cv::Rect random_crop(const cv::Size& image, const cv::Size& sample, Draw& draw) {
  const double fit = std::min(static_cast<double>(image.width) / sample.width,
                              static_cast<double>(image.height) / sample.height);
  const double share = fit * (kLeastCrop + (1 - kLeastCrop) * draw.next());
  const int width = std::clamp(cvRound(sample.width * share), 1, image.width);
  const int height = std::clamp(cvRound(sample.height * share), 1, image.height);
  const auto place = [&](int room) { return static_cast<int>(draw.next() * (room + 1)); };
  const int x = place(image.width - width);
  return {x, place(image.height - height), width, height};
}

}  // namespace

struct SampleMaker::Buffers {
  std::vector<unsigned char> file;
  cv::Mat image;
  cv::Mat sample;
  cv::Mat flipped;
  std::array<cv::Mat, 3> planes;
  std::vector<float> floats;
};

SampleMaker::SampleMaker(const ImageSource& images, const LoaderPlan& plan)
    : images_(images), plan_(plan), buffers_(std::make_unique<Buffers>()) {}

SampleMaker::~SampleMaker() = default;

Expected<uint32_t> SampleMaker::make(uint32_t index, uint64_t random, std::span<std::byte> out,
                                     const BrokenImageHandler& on_broken) {
  for (uint32_t tries = 0; tries < images_.size(); ++tries) {
    const Status made = make_one(index, random, out);
    if (made) return index;
    on_broken(index, to_string(made.error()));
    index = (index + 1) % images_.size();
  }
  return failure(ErrorCode::kMalformed, "none of the " + std::to_string(images_.size()) +
                                            " images can be decoded, for example " +
                                            images_.name(index));
}

Status SampleMaker::make_one(uint32_t index, uint64_t random, std::span<std::byte> out) {
  Buffers& buffers = *buffers_;
  DLP_CHECK(images_.read(index, buffers.file));
  const auto channels = static_cast<size_t>(plan_.sample_shape[0]);
  const cv::Size size(static_cast<int>(plan_.sample_shape[2]),
                      static_cast<int>(plan_.sample_shape[1]));
  try {
    if (buffers.file.empty()) return failure(ErrorCode::kMalformed, "the file is empty");
    buffers.image
        .release();  // imdecode leaves the last image in it where it cannot decode this one
    cv::imdecode(buffers.file, channels == 1 ? cv::IMREAD_GRAYSCALE : cv::IMREAD_COLOR,
                 &buffers.image);
    if (buffers.image.empty())
      return failure(ErrorCode::kMalformed, "not an image OpenCV can decode");
    Draw draw(random);
    const cv::Rect crop = random_crop(buffers.image.size(), size, draw);
    cv::resize(buffers.image(crop), buffers.sample, size, 0, 0, cv::INTER_LINEAR);
    const bool flip = draw.next() < 0.5;
    if (flip) cv::flip(buffers.sample, buffers.flipped, 1);
    cv::split(flip ? buffers.flipped : buffers.sample, buffers.planes.data());
  } catch (const cv::Exception& error) {
    return failure(ErrorCode::kMalformed, "OpenCV: " + error.err);
  }
  const auto pixels = static_cast<size_t>(size.area());
  const bool as_bytes = plan_.dtype == "uint8";
  const bool as_floats = plan_.dtype == "float32";
  if (!as_bytes && !as_floats) buffers.floats.resize(pixels * channels);
  for (size_t channel = 0; channel < channels; ++channel) {
    // Blue comes first in OpenCV. More channels than colours: the colours again.
    const size_t colour = channel % 3;
    const cv::Mat& plane = buffers.planes.at(channels == 1 ? 0 : 2 - colour);
    if (as_bytes) {
      plane.copyTo(cv::Mat(size, CV_8U, out.data() + channel * pixels));
      continue;
    }
    void* target = as_floats ? static_cast<void*>(out.data() + channel * pixels * sizeof(float))
                             : buffers.floats.data() + channel * pixels;
    cv::Mat floats(size, CV_32F, target);
    plane.convertTo(floats, CV_32F, 1 / (255 * kStd.at(colour)),
                    -kMean.at(colour) / kStd.at(colour));
  }
  if (!as_bytes && !as_floats) convert_floats(buffers.floats, plan_.dtype, out);
  return {};
}

Status fill_batch(SampleMaker& maker, const BatchPlace& place, std::span<const uint32_t> images,
                  const BatchMemory& memory, const BrokenImageHandler& on_broken) {
  if (images.empty()) return {};
  const size_t bytes = memory.samples.size() / images.size();
  const uint64_t epoch_random = mix(mix(place.seed) + static_cast<uint64_t>(place.epoch));
  for (size_t i = 0; i < images.size(); ++i) {
    const uint64_t random = mix(epoch_random + place.first_position + i);
    DLP_TRY(const uint32_t image,
            maker.make(images[i], random, memory.samples.subspan(i * bytes, bytes), on_broken));
    memory.labels[i] = image;
  }
  return {};
}

void use_opencv_threads() {
  constexpr int kStripes = 64;
  std::vector<int> sums(kStripes);
  cv::parallel_for_(cv::Range(0, kStripes), [&](const cv::Range& range) {
    for (int i = range.start; i < range.end; ++i)
      sums[static_cast<size_t>(i)] = i;
  });
}

void use_no_opencv_threads() {
  cv::setNumThreads(0);
}

std::string opencv_version() {
  return cv::getVersionString();
}

}  // namespace dlprobe::loader
