#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe::loader {

/// Where compressed images come from: files of a folder, or JPEGs made at the start.
///
/// Plain enough to be handed to a worker process: file names, or one descriptor and offsets.
class ImageSource {
 public:
  ImageSource() = default;
  explicit ImageSource(std::vector<std::string> paths) : paths_(std::move(paths)) {}
  /// Image i is the bytes from offsets[i] to offsets[i + 1] of `file`.
  ImageSource(UniqueFd file, std::vector<uint64_t> offsets)
      : file_(std::move(file)), offsets_(std::move(offsets)) {}

  /// The same images for a forked process, whose descriptor of their file is `fd`.
  ImageSource share(int fd) const;

  uint32_t size() const;
  /// The compressed bytes of image `index`, into `bytes`.
  Status read(uint32_t index, std::vector<unsigned char>& bytes) const;
  /// For messages: a path, or "built-in image 7".
  std::string name(uint32_t index) const;

  const std::vector<std::string>& paths() const { return paths_; }
  const std::vector<uint64_t>& offsets() const { return offsets_; }
  int file() const { return file_.get(); }  ///< -1 for a folder

 private:
  std::vector<std::string> paths_;
  UniqueFd file_;
  std::vector<uint64_t> offsets_;
};

/// The .jpg, .jpeg, .png, .bmp and .webp files below `folder`, in the order of their names; `most`
/// above 0: the first so many that are found, among a hundred times as many files and folders.
/// kNotFound if there is none, or if it is not a folder.
Expected<ImageSource> images_of_folder(const std::string& folder, int most);

/// What built-in images are to be like.
struct BuiltInImages {
  uint32_t count = 256;
  int height = 256;
  int width = 256;
  uint64_t seed = 0;
};

/// Makes JPEGs that cost about as much to decode as photographs, the same for the same seed, in a
/// nameless file in memory. Uses OpenCV's threads. kTimeout as soon as `give_up` says so.
Expected<ImageSource> make_images(const BuiltInImages& wanted,
                                  const std::function<bool()>& give_up);

}  // namespace dlprobe::loader
