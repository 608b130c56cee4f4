#include "lib/os/atomic_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

/// Unlinks a half-written file unless it was given its name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : name_(target + ".XXXXXX") {
    fd_.reset(::mkostemp(name_.data(), O_CLOEXEC));  // mode 0600, O_EXCL
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (fd_ && !named_) ::unlink(name_.c_str());
  }

  int fd() const { return fd_.get(); }
  const std::string& name() const { return name_; }
  Status rename_to(const std::string& target) {
    if (::rename(name_.c_str(), target.c_str()) != 0) return os_failure("rename to " + target);
    named_ = true;
    return {};
  }

 private:
  std::string name_;
  UniqueFd fd_;
  bool named_ = false;
};

bool is_special(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

// A file that is mounted by itself, as Kubernetes mounts /dev/termination-log: rename(2) over it is
// EBUSY, and its folder may be another's. Kernels before 5.8 do not say.
bool is_mount_point(const std::string& path) {
  struct statx facts{};
  return ::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE,
                 &facts) == 0 &&
         S_ISREG(facts.stx_mode) && (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

bool is_written_in_place(const std::string& path) {
  return is_special(path) || is_mount_point(path);
}

Status write_in_place(const std::string& path, std::string_view text) {
  // O_TRUNC says nothing to a device or a FIFO.
  const UniqueFd fd(::open(path.c_str(), O_WRONLY | O_TRUNC | O_NOCTTY | O_CLOEXEC));
  if (!fd) return os_failure("open " + path);
  return write_all(fd.get(), text, path);
}

bool is_pipe(const UniqueFd& fd) {
  struct stat status{};
  return ::fstat(fd.get(), &status) == 0 && S_ISFIFO(status.st_mode);
}

void wait_until_readable(const UniqueFd& fd) {
  pollfd wanted{.fd = fd.get(), .events = POLLIN, .revents = 0};
  ::poll(&wanted, 1, -1);
}

}  // namespace

Expected<UniqueFd> open_null_device() {
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (null.get() < 0) return os_failure("open /dev/null");
  return null;
}

Status write_all(int fd, std::string_view bytes, const std::string& what) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return os_failure("write " + what);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Status write_file_atomically(const std::string& path, std::string_view text) {
  if (is_written_in_place(path)) return write_in_place(path, text);
  TemporaryFile file(path);
  if (file.fd() < 0) return os_failure("create " + path);
  DLP_CHECK(write_all(file.fd(), text, path));
  if (::fsync(file.fd()) != 0) return os_failure("fsync " + path);
  return file.rename_to(path);
}

Expected<std::string> read_whole_file(const std::string& path, uint64_t limit) {
  // Without O_NONBLOCK the opening of a named pipe waits for somebody who writes to it.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd) return os_failure("open " + path);
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      wait_until_readable(fd);
      continue;
    }
    if (count < 0) return os_failure("read " + path);
    if (count == 0 && text.empty() && is_pipe(fd)) {
      return failure(ErrorCode::kMalformed,
                     "read " + path + ": it is a pipe, and nobody writes to it");
    }
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    if (text.size() > limit) {
      return failure(ErrorCode::kMalformed,
                     "read " + path + ": it is larger than " + format_bytes(limit));
    }
  }
}

Expected<std::optional<std::vector<std::string>>> list_folder(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::nullopt;
  std::vector<std::string> found;
  for (std::filesystem::directory_iterator at(path, error), end; !error && at != end;
       at.increment(error)) {
    found.push_back(at->path().string());
  }
  if (error) return os_failure("list " + path, error.value());
  std::ranges::sort(found);
  return found;
}

Status check_writable(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) {
    return os_failure("write " + path, EISDIR);
  }
  if (is_written_in_place(path)) {
    return ::access(path.c_str(), W_OK) == 0 ? Status() : os_failure("write " + path);
  }
  const size_t slash = path.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path.substr(0, slash);
  if (folder.empty()) folder = "/";
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return os_failure("write to the folder " + folder);
  return {};
}

Expected<AppendFile> AppendFile::create(const std::string& path) {
  return open(path, O_CREAT | O_TRUNC);
}

Expected<AppendFile> AppendFile::open_existing(const std::string& path) {
  return open(path, 0);
}

Expected<AppendFile> AppendFile::open(const std::string& path, int flags) {
  flags |= O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), flags, 0600));
  if (!fd && errno == ELOOP) {
    return failure(ErrorCode::kInvalid, "create " + path + ": a symbolic link");
  }
  if (!fd) return os_failure("create " + path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return os_failure("stat " + path);
  if (!S_ISREG(status.st_mode)) {
    return failure(ErrorCode::kInvalid, "create " + path + ": not a regular file");
  }
  // An older file of that name may have been open to others.
  if (::fchmod(fd.get(), 0600) != 0) return os_failure("chmod " + path);
  AppendFile file(std::move(fd), path);
  file.size_ = status.st_size;
  return file;
}

Status AppendFile::append(std::string_view bytes) {
  if (auto status = write_all(fd_.get(), bytes, path_); !status) {
    // A cut-off record in the middle would end every later read; best effort on a full disk.
    if (::ftruncate(fd_.get(), size_) != 0) return status;
    return status;
  }
  size_ += static_cast<int64_t>(bytes.size());
  return {};
}

}  // namespace dlprobe
