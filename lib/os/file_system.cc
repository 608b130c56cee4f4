#include "lib/os/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>
#include <optional>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

constexpr uint64_t kStatBlockBytes = 512;  // st_blocks counts these whatever the block size is

/// A component path with its terminating NUL on the stack: these calls are made thousands of times
/// a second.
class CPath {
 public:
  explicit CPath(std::string_view name) {
    while (name.starts_with('/'))
      name.remove_prefix(1);
    fits_ = name.size() < text_.size() && !name.contains('\0');
    if (!fits_) return;
    std::memcpy(text_.data(), name.data(), name.size());
    text_[name.size()] = '\0';
  }
  bool fits() const { return fits_; }
  const char* get() const { return text_.data(); }

 private:
  std::array<char, PATH_MAX> text_;
  bool fits_ = false;
};

FileStat from_stat(const struct stat& status) {
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .mode = status.st_mode,
          .links = status.st_nlink,
          .uid = status.st_uid,
          .size_bytes = static_cast<uint64_t>(status.st_size),
          .allocated_bytes = static_cast<uint64_t>(status.st_blocks) * kStatBlockBytes,
          .modified_ns = status.st_mtim.tv_sec * kSecond + status.st_mtim.tv_nsec};
}

FileStat from_statx(const struct statx& status) {
  return {.device = makedev(status.stx_dev_major, status.stx_dev_minor),
          .inode = status.stx_ino,
          .mode = status.stx_mode,
          .links = status.stx_nlink,
          .uid = status.stx_uid,
          .size_bytes = status.stx_size,
          .allocated_bytes = status.stx_blocks * kStatBlockBytes,
          .modified_ns = status.stx_mtime.tv_sec * kSecond + status.stx_mtime.tv_nsec};
}

/// What is known of a file without asking its storage: one that does not answer (NFS, FUSE) would
/// keep whoever asks, too (AT_STATX_DONT_SYNC, statx(2), Linux 4.11). Where that call is not there,
/// or forbidden to containers, by stat(2).
std::optional<FileStat> stat_without_storage(int folder, const char* path, int flags) {
  struct statx known{};
  if (::statx(folder, path, flags | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &known) == 0) {
    return from_statx(known);
  }
  if (errno != ENOSYS && errno != EPERM) return std::nullopt;
  struct stat status{};
  if (::fstatat(folder, path, &status, flags) != 0) return std::nullopt;
  return from_stat(status);
}

/// read(2) until the end. A kernel file may give less than asked for long before its end.
Expected<std::string> read_all(int fd, size_t limit, const std::string& context) {
  constexpr size_t kLeastRoom = 1024;
  std::string text;
  size_t used = 0;
  text.resize(4096);
  while (true) {
    const ssize_t got = ::read(fd, text.data() + used, text.size() - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_failure("read " + context);
    if (got == 0) break;
    used += static_cast<size_t>(got);
    if (used > limit) {
      return failure(ErrorCode::kMalformed,
                     "read " + context + ": larger than " + std::to_string(limit) + " bytes");
    }
    // What is left of a small buffer would be filled with a part of a line, at a call of its own.
    if (text.size() - used < kLeastRoom) text.resize(text.size() * 2);
  }
  text.resize(used);
  return text;
}

class OpenFile final : public KeptFile {
 public:
  OpenFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Expected<std::string_view> read(std::span<char> buffer) const override {
    size_t used = 0;
    while (used < buffer.size()) {
      const ssize_t got =
          ::pread(fd_.get(), buffer.data() + used, buffer.size() - used, static_cast<off_t>(used));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return os_failure("read " + path_);
      used += static_cast<size_t>(got);
      // seq_file gives at most a page at a time; looking for an end that is certain would make the
      // kernel write the whole text again.
      constexpr ssize_t kMaybeMore = 3072;
      if (got < kMaybeMore) break;
    }
    return std::string_view(buffer.data(), used);
  }

 private:
  UniqueFd fd_;
  std::string path_;
};

class OpenDirectory final : public Directory {
 public:
  OpenDirectory(UniqueFd fd, std::string path, bool live)
      : fd_(std::move(fd)), path_(std::move(path)), live_(live) {}

  const std::string& path() const override { return path_; }
  int native_handle() const override { return fd_.get(); }
  using Directory::read;

  Expected<std::string> read(std::string_view name, size_t limit) const override {
    DLP_TRY(const UniqueFd fd, open_at(name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    return read_all(fd.get(), limit, join_path(*this, name));
  }

  Expected<std::string> read_link(std::string_view name) const override {
    std::array<char, PATH_MAX> target;
    ssize_t length = 0;
    if (live_) {
      const CPath path(name);
      if (!path.fits()) return too_long(name);
      length = ::readlinkat(fd_.get(), path.get(), target.data(), target.size());
    } else {
      DLP_TRY(const UniqueFd fd, open_at(name, O_PATH | O_NOFOLLOW));
      length = ::readlinkat(fd.get(), "", target.data(), target.size());
    }
    if (length < 0) return os_failure("readlink " + join_path(*this, name));
    return std::string(target.data(), static_cast<size_t>(length));
  }

  Expected<std::vector<std::string>> list(std::string_view name) const override {
    DLP_TRY(UniqueFd fd, open_at(name, O_RDONLY | O_DIRECTORY));
    DIR* stream = ::fdopendir(fd.get());
    if (stream == nullptr) return os_failure("list " + join_path(*this, name));
    fd.release();  // closedir closes it
    std::vector<std::string> names;
    errno = 0;
    // readdir is safe here: no other thread has this stream.
    while (const dirent* entry = ::readdir(stream)) {  // NOLINT(concurrency-mt-unsafe)
      const std::string_view found = entry->d_name;
      if (found != "." && found != "..") names.emplace_back(found);
    }
    const int read_errno = errno;
    ::closedir(stream);
    if (read_errno != 0) return os_failure("list " + join_path(*this, name), read_errno);
    return names;
  }

  Expected<FileStat> stat(std::string_view name) const override { return stat_with(name, 0); }
  Expected<FileStat> stat_link(std::string_view name) const override {
    return stat_with(name, AT_SYMLINK_NOFOLLOW);
  }

  Expected<MountUse> mount_use(std::string_view name) const override {
    if (!live_) {
      return failure(ErrorCode::kUnsupported,
                     "statfs " + join_path(*this, name) + ": a recorded machine");
    }
    struct statfs status{};
    if (name.empty()) {
      if (::fstatfs(fd_.get(), &status) != 0) return os_failure("statfs " + path_);
    } else {
      DLP_TRY(const UniqueFd fd, open_at(name, O_PATH));
      if (::fstatfs(fd.get(), &status) != 0) {
        return os_failure("statfs " + join_path(*this, name));
      }
    }
    const auto block =
        static_cast<uint64_t>(status.f_frsize != 0 ? status.f_frsize : status.f_bsize);
    return MountUse{.size_bytes = status.f_blocks * block,
                    .used_bytes = (status.f_blocks - status.f_bfree) * block,
                    .inodes = status.f_files,
                    .inodes_used = status.f_files - status.f_ffree,
                    .type_magic = static_cast<uint64_t>(status.f_type)};
  }

  Expected<std::shared_ptr<const Directory>> open_directory(std::string_view name) const override {
    return open_below(name, live_);
  }
  Expected<std::shared_ptr<const Directory>> open_as_root(std::string_view name) const override {
    return open_below(name, /*live=*/false);
  }

  Expected<UniqueFd> open_file(std::string_view name) const override {
    DLP_TRY(UniqueFd fd, open_at(name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    struct stat status{};
    if (::fstat(fd.get(), &status) != 0) return os_failure("stat " + join_path(*this, name));
    if (!S_ISREG(status.st_mode)) {
      return failure(ErrorCode::kInvalid, join_path(*this, name) + " is no regular file");
    }
    return fd;
  }

  Expected<std::unique_ptr<const KeptFile>> keep_file(std::string_view name) const override {
    DLP_TRY(UniqueFd fd, open_at(name, O_RDONLY | O_NONBLOCK | O_NOCTTY));
    return std::make_unique<OpenFile>(std::move(fd), join_path(*this, name));
  }

 private:
  std::unexpected<Error> too_long(std::string_view name) const {
    return os_failure("open " + join_path(*this, name), ENAMETOOLONG);
  }

  Expected<std::shared_ptr<const Directory>> open_below(std::string_view name, bool live) const {
    DLP_TRY(UniqueFd fd, open_at(name, O_PATH | O_DIRECTORY));
    return std::make_shared<OpenDirectory>(std::move(fd), join_path(*this, name), live);
  }

  Expected<UniqueFd> open_at(std::string_view name, int flags) const {
    const CPath path(name);
    if (!path.fits()) return too_long(name);
    const char* text = *path.get() == '\0' ? "." : path.get();
    int fd = -1;
    if (live_) {
      fd = ::openat(fd_.get(), text, flags | O_CLOEXEC);
    } else {
      // A recorded machine's links (/proc/42/root -> /) are to be followed inside it.
      open_how how{
          .flags = static_cast<uint64_t>(flags | O_CLOEXEC), .mode = 0, .resolve = RESOLVE_IN_ROOT};
      fd = static_cast<int>(::syscall(SYS_openat2, fd_.get(), text, &how, sizeof how));
    }
    if (fd < 0) return os_failure("open " + join_path(*this, name));
    return UniqueFd(fd);
  }

  Expected<FileStat> stat_with(std::string_view name, int flags) const {
    struct stat status{};
    if (name.empty()) {
      if (::fstat(fd_.get(), &status) != 0) return os_failure("stat " + path_);
      return from_stat(status);
    }
    if (live_) {
      const CPath path(name);
      if (!path.fits()) return too_long(name);
      const auto known = stat_without_storage(fd_.get(), path.get(), flags);
      if (!known) return os_failure("stat " + join_path(*this, name));
      return *known;
    }
    const int no_follow = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? O_NOFOLLOW : 0;
    DLP_TRY(const UniqueFd fd, open_at(name, O_PATH | no_follow));
    if (::fstat(fd.get(), &status) != 0) return os_failure("stat " + join_path(*this, name));
    return from_stat(status);
  }

  UniqueFd fd_;
  std::string path_;
  bool live_;
};

}  // namespace

Expected<std::shared_ptr<const Directory>> open_root(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return os_failure("open " + path);
  return std::make_shared<OpenDirectory>(std::move(fd), "", path == "/");
}

Expected<UniqueFd> Directory::open_file(std::string_view name) const {
  return failure(ErrorCode::kUnsupported, "open " + join_path(*this, name) + ": made up");
}

std::string join_path(const Directory& directory, std::string_view name) {
  while (name.starts_with('/'))
    name.remove_prefix(1);
  std::string path = directory.path();
  if (!name.empty() || path.empty()) path += '/';
  path += name;
  return path;
}

}  // namespace dlprobe
