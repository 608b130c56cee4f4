#include "tools/reference_loader/image_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>

#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {
namespace {

namespace fs = std::filesystem;

// A file larger than this is not a training image; reading it would only drive out other memory.
constexpr off_t kMaxFileBytes = off_t{256} << 20;
constexpr int kJpegQuality = 90;

bool is_image_name(const fs::path& path) {
  std::string extension = path.extension().string();
  for (char& c : extension)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::array<std::string_view, 5> kExtensions = {".jpg", ".jpeg", ".png", ".bmp",
                                                           ".webp"};
  return std::ranges::find(kExtensions, extension) != kExtensions.end();
}

Status read_at(int fd, uint64_t offset, std::span<unsigned char> into) {
  while (!into.empty()) {
    const ssize_t got = pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_failure("read image");
    if (got == 0) return failure(ErrorCode::kMalformed, "read image: it became shorter");
    into = into.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return {};
}

Status read_file(const std::string& path, std::vector<unsigned char>& bytes) {
  // O_NONBLOCK: what is a FIFO by now must not stop a worker for ever.
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return os_failure("open image");
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return os_failure("stat image");
  if (!S_ISREG(status.st_mode)) return failure(ErrorCode::kInvalid, "not a regular file");
  if (status.st_size > kMaxFileBytes) return failure(ErrorCode::kInvalid, "larger than 256 MiB");
  bytes.resize(static_cast<size_t>(status.st_size));
  return read_at(fd.get(), 0, bytes);
}

/// Noise at three scales: its coefficients fill a JPEG's blocks about as a photograph's do.
std::vector<unsigned char> make_jpeg(const BuiltInImages& wanted, uint32_t index) {
  cv::RNG random(wanted.seed * 0x9e3779b97f4a7c15ULL + index + 1);
  const cv::Size size(wanted.width, wanted.height);
  cv::Mat picture(size, CV_8UC3, cv::Scalar::all(0));
  cv::Mat layer;
  constexpr std::array<std::pair<int, double>, 3> kScales = {{{32, 0.6}, {8, 0.3}, {2, 0.2}}};
  for (const auto& [scale, weight] : kScales) {
    cv::Mat noise(std::max(2, size.height / scale), std::max(2, size.width / scale), CV_8UC3);
    random.fill(noise, cv::RNG::UNIFORM, 0, 256);
    cv::resize(noise, layer, size, 0, 0, cv::INTER_LINEAR);
    cv::addWeighted(picture, 1.0, layer, weight, 0, picture);
  }
  std::vector<unsigned char> jpeg;
  cv::imencode(".jpg", picture, jpeg, {cv::IMWRITE_JPEG_QUALITY, kJpegQuality});
  return jpeg;
}

}  // namespace

ImageSource ImageSource::share(int fd) const {
  ImageSource same(paths_);
  same.offsets_ = offsets_;
  same.file_.reset(fd);
  return same;
}

uint32_t ImageSource::size() const {
  return static_cast<uint32_t>(offsets_.empty() ? paths_.size() : offsets_.size() - 1);
}

Status ImageSource::read(uint32_t index, std::vector<unsigned char>& bytes) const {
  if (offsets_.empty()) return read_file(paths_.at(index), bytes);
  const uint64_t begin = offsets_.at(index);
  bytes.resize(offsets_.at(size_t{index} + 1) - begin);
  return read_at(file_.get(), begin, bytes);
}

std::string ImageSource::name(uint32_t index) const {
  return offsets_.empty() ? paths_.at(index) : "built-in image " + std::to_string(index);
}

Expected<ImageSource> images_of_folder(const std::string& folder, int most) {
  std::error_code status;
  if (!fs::is_directory(folder, status)) {
    return failure(ErrorCode::kNotFound, "--data '" + folder + "' is not a folder" +
                                             (status ? " (" + status.message() + ")" : "") +
                                             ": give one that holds images");
  }
  std::vector<std::string> paths;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         status);
  const size_t most_images = most > 0 ? static_cast<size_t>(most) : SIZE_MAX;
  size_t entries_left = most > 0 ? most_images * 100 : SIZE_MAX;
  while (!status && entry != fs::recursive_directory_iterator() && paths.size() < most_images &&
         entries_left-- > 0) {
    std::error_code unreadable;
    if (is_image_name(entry->path()) && entry->is_regular_file(unreadable)) {
      paths.push_back(entry->path().string());
    }
    entry.increment(status);
  }
  if (paths.empty()) {
    return failure(
        ErrorCode::kNotFound,
        "--data '" + folder +
            "' holds no image: give a folder with .jpg, .jpeg, .png, .bmp or .webp files "
            "in it or below it");
  }
  std::ranges::sort(paths);
  return ImageSource(std::move(paths));
}

Expected<ImageSource> make_images(const BuiltInImages& wanted,
                                  const std::function<bool()>& give_up) {
  DLP_TRY(UniqueFd file, make_memory_file("dlprobe-images"));
  std::vector<uint64_t> offsets = {0};
  constexpr uint32_t kAtOnce = 64;
  for (uint32_t first = 0; first < wanted.count; first += kAtOnce) {
    if (give_up()) return failure(ErrorCode::kTimeout, "stopped while making images");
    const uint32_t count = std::min(kAtOnce, wanted.count - first);
    std::vector<std::vector<unsigned char>> jpegs(count);
    cv::parallel_for_(cv::Range(0, static_cast<int>(count)), [&](const cv::Range& range) {
      for (int i = range.start; i < range.end; ++i) {
        jpegs[static_cast<size_t>(i)] = make_jpeg(wanted, first + static_cast<uint32_t>(i));
      }
    });
    for (const auto& jpeg : jpegs) {
      DLP_CHECK(write_all(file.get(), std::as_bytes(std::span(jpeg))));
      offsets.push_back(offsets.back() + jpeg.size());
    }
  }
  return ImageSource(std::move(file), std::move(offsets));
}

}  // namespace dlprobe::loader
