#include "lib/os/growing_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dlprobe {

std::optional<GrowingFile> GrowingFile::behind(int fd) {
  struct stat status = {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  UniqueFd own(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!own) return std::nullopt;
  return GrowingFile(std::move(own), status.st_size);
}

std::string GrowingFile::read_new(size_t limit) {
  struct stat status = {};
  if (::fstat(fd_.get(), &status) != 0) return {};
  if (status.st_size < offset_) offset_ = 0;
  if (status.st_size == offset_) return {};
  std::string bytes(limit, '\0');
  const ssize_t count = ::pread(fd_.get(), bytes.data(), limit, offset_);
  if (count <= 0) return {};
  offset_ += count;
  bytes.resize(static_cast<size_t>(count));
  return bytes;
}

}  // namespace dlprobe
