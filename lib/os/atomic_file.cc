#include "lib/os/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <utility>

#include "lib/base/units.h"
#include "lib/os/path_trust.h"

namespace dlprobe {
namespace {

Status write_durably(int fd, std::string_view text, const std::string& what) {
  DLP_CHECK(write_all(fd, text, what));
  if (::fsync(fd) != 0) return os_failure("fsync " + what);
  return {};
}

bool link_open_file(const UniqueFd& file, const std::string& name) {
  const std::string open_file = "/proc/self/fd/" + std::to_string(file.get());
  return ::linkat(AT_FDCWD, open_file.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

/// Gives `name` to a file that has none. An older file can only be replaced by one that has a name:
/// this one has another for an instant.
bool give_name(const UniqueFd& file, const std::string& name) {
  if (link_open_file(file, name)) return true;
  uint64_t bits = 0;
  if (errno != EEXIST || ::getrandom(&bits, sizeof bits, 0) != sizeof bits) return false;
  const std::string other = fmt::format("{}.{:016x}", name, bits);
  if (!link_open_file(file, other)) return false;
  if (::rename(other.c_str(), name.c_str()) == 0) return true;
  ::unlink(other.c_str());
  return false;
}

/// Unlinks a half-written file unless it was given its name.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : name_(target + ".XXXXXX") {
    fd_.reset(::mkostemp(name_.data(), O_APPEND | O_CLOEXEC));  // mode 0600, O_EXCL
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile(TemporaryFile&&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (fd_ && !named_) ::unlink(name_.c_str());
  }

  /// Makes it durable with `text` in it and gives it its name; then its descriptor, for appending.
  Expected<UniqueFd> fill(std::string_view text, const std::string& target) {
    if (!fd_) return os_failure("create " + target);
    DLP_CHECK(write_durably(fd_.get(), text, target));
    if (::rename(name_.c_str(), target.c_str()) != 0) return os_failure("rename to " + target);
    named_ = true;
    return std::move(fd_);
  }

 private:
  std::string name_;
  UniqueFd fd_;
  bool named_ = false;
};

// A file that is mounted by itself, as Kubernetes mounts /dev/termination-log: rename(2) over it is
// EBUSY, and its folder may be another's. Kernels before 5.8 do not say.
bool is_mount_point(const PathNode& node) {
  struct statx facts{};
  return ::statx(node.fd.get(), "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, STATX_TYPE, &facts) == 0 &&
         (facts.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}

// A link of /proc leads to an open file, not to the name that it shows: /proc/self/fd/1, to which
// /dev/stdout leads.
bool leads_to_open_file(const PathNode& link) {
  struct statfs facts{};
  return ::fstatfs(link.fd.get(), &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

// A file without a name goes with dlprobe if that is killed while it writes. Where a file system
// has none (NFS), or they cannot be named (no /proc), it has a name from the beginning.
Expected<UniqueFd> replace_file(const std::string& target, std::string_view text) {
  constexpr mode_t kMode = 0600;
  UniqueFd file(
      ::open(folder_of(target).c_str(), O_TMPFILE | O_WRONLY | O_APPEND | O_CLOEXEC, kMode));
  if (!file) return TemporaryFile(target).fill(text, target);
  DLP_CHECK(write_durably(file.get(), text, target));
  if (!give_name(file, target)) return TemporaryFile(target).fill(text, target);
  return file;
}

enum class Writing { kReplace, kInPlace, kOpenFile };

// Where a text goes that is written to a path of the user's.
struct Place {
  std::string path;
  Writing writing = Writing::kReplace;
};

Status check_in_place(const struct stat& status, bool is_ours, const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return failure(ErrorCode::kInvalid, "write " + path + ": " + why);
  };
  if (S_ISBLK(status.st_mode)) return refuse("it is a block device");
  // A named pipe or a mounted file that somebody planted would hand the text to them.
  if (!is_ours) return refuse("it belongs to uid " + std::to_string(status.st_uid));
  return {};
}

// Links that this user or root made are followed; one of another user's is replaced, for it could
// lead anywhere.
Expected<Place> place_of(const std::string& typed) {
  std::string path = typed;
  for (int links = 0; links < kMostLinks; ++links) {
    const auto node = look_at_node(path);
    if (!node && node.error().code == ErrorCode::kNotFound) return Place{.path = path};
    if (!node) return std::unexpected(node.error());
    const mode_t mode = node->status.st_mode;
    if (node->is_link() && !node->is_ours()) return Place{.path = path};
    if (node->is_link() && leads_to_open_file(*node))
      return Place{.path = path, .writing = Writing::kOpenFile};
    if (node->is_link()) {
      DLP_TRY(path, target_of_link(*node, path));
      continue;
    }
    if (S_ISDIR(mode)) return os_failure("write " + path, EISDIR);
    if (S_ISREG(mode) && !is_mount_point(*node)) return Place{.path = path};
    DLP_CHECK(check_in_place(node->status, node->is_ours(), path));
    return Place{.path = path, .writing = Writing::kInPlace};
  }
  return os_failure("write " + typed, ELOOP);
}

Status write_in_place(const Place& place, std::string_view text) {
  const std::string& path = place.path;
  const bool is_open_file = place.writing == Writing::kOpenFile;
  // Without O_NONBLOCK the opening of a named pipe waits for a reader, which may never come.
  const int flags = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const UniqueFd fd(::open(path.c_str(), flags | (is_open_file ? O_APPEND : O_NOFOLLOW)));
  if (!fd && errno == ENXIO) return os_failure("write " + path + ", which nobody reads", ENXIO);
  if (!fd) return os_failure("open " + path);
  PathNode opened;
  if (::fstat(fd.get(), &opened.status) != 0) return os_failure("stat " + path);
  // What was there a moment ago may have been swapped. An open file of our own may be a terminal
  // that belongs to whoever logged in.
  DLP_CHECK(check_in_place(opened.status, is_open_file || opened.is_ours(), path));
  if (::fcntl(fd.get(), F_SETFL, is_open_file ? O_APPEND : 0) != 0)
    return os_failure("open " + path);
  if (!is_open_file && S_ISREG(opened.status.st_mode) && ::ftruncate(fd.get(), 0) != 0)
    return os_failure("truncate " + path);
  return write_all(fd.get(), text, path);
}

// What may be waited for where nothing is there yet; a device or a file of /proc that has nothing
// to say may never have.
bool is_waited_for(int fd, const struct stat& status) {
  return S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode) || ::isatty(fd) == 1;
}

// A disk, or a device that never ends (/dev/zero): no text was ever written there. A terminal and
// /dev/null are as good as a file.
bool is_endless(int fd, const struct stat& status) {
  const bool is_null = status.st_rdev == makedev(1, 3);
  return S_ISBLK(status.st_mode) || (S_ISCHR(status.st_mode) && !is_null && ::isatty(fd) != 1);
}

void wait_until_readable(int fd) {
  pollfd wanted{.fd = fd, .events = POLLIN, .revents = 0};
  ::poll(&wanted, 1, -1);
}

using TakeBytes = std::function<Status(std::string_view)>;

Status read_pieces(const std::string& place, const std::string& path, uint64_t limit,
                   const TakeBytes& take) {
  // Without O_NONBLOCK the opening of a named pipe waits for somebody who writes to it.
  const UniqueFd fd(::open(place.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  struct stat status{};
  if (!fd || ::fstat(fd.get(), &status) != 0) return os_failure("open " + path);
  if (is_endless(fd.get(), status))
    return failure(ErrorCode::kMalformed, "read " + path + ": it is a device");
  uint64_t size = 0;
  std::array<char, 65536> buffer{};
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN && is_waited_for(fd.get(), status)) {
      wait_until_readable(fd.get());
      continue;
    }
    if (count < 0) return os_failure("read " + path);
    if (count == 0 && size == 0 && S_ISFIFO(status.st_mode)) {
      return failure(ErrorCode::kMalformed, "read " + path + ": it is a pipe without a writer");
    }
    if (count == 0) return {};
    size += static_cast<uint64_t>(count);
    if (size > limit) {
      return failure(ErrorCode::kMalformed,
                     "read " + path + ": it is larger than " + format_bytes(limit));
    }
    DLP_CHECK(take(std::string_view(buffer.data(), static_cast<size_t>(count))));
  }
}

Expected<std::string> read_at(const std::string& place, const std::string& path, uint64_t limit) {
  std::string text;
  DLP_CHECK(read_pieces(place, path, limit, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  }));
  return text;
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
  DLP_TRY(const Place place, place_of(path));
  if (place.writing != Writing::kReplace) return write_in_place(place, text);
  DLP_CHECK(replace_file(place.path, text));
  return {};
}

Expected<std::string> read_whole_file(const std::string& path, uint64_t limit) {
  return read_at(path, path, limit);
}

Status read_file(const std::string& path, uint64_t limit, const TakeBytes& take) {
  return read_pieces(path, path, limit, take);
}

Expected<std::string> read_trusted_file(const UniqueFd& found, const std::string& path,
                                        uint64_t limit) {
  return read_at("/proc/self/fd/" + std::to_string(found.get()), path, limit);
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
  DLP_TRY(const Place place, place_of(path));
  if (place.writing != Writing::kReplace) {
    return ::access(place.path.c_str(), W_OK) == 0 ? Status() : os_failure("write " + path);
  }
  const std::string folder = folder_of(place.path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return os_failure("write to the folder " + folder);
  return {};
}

namespace {

// Two that append to one file would mix. The lock is this process's alone: it ends with it, and no
// child has it. Where the file system has no locks (ENOLCK) nothing is said.
bool is_locked_by_another(int fd) {
  struct flock whole = {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(fd, F_SETLK, &whole) != 0 && (errno == EAGAIN || errno == EACCES);
}

}  // namespace

Expected<AppendFile> AppendFile::create(const std::string& path) {
  const auto refuse = [&path](const std::string& why) {
    return failure(ErrorCode::kInvalid, "create " + path + ": " + why);
  };
  constexpr int kFlags = O_WRONLY | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600));
  // What a file server made may not bear this user's id (root_squash), so only the file of before
  // is asked for its owner.
  const bool is_new = static_cast<bool>(fd);
  if (!fd && errno == EEXIST) fd.reset(::open(path.c_str(), kFlags));
  if (!fd && errno == ELOOP) return refuse("a symbolic link");
  if (!fd) return os_failure("create " + path);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return os_failure("stat " + path);
  if (!S_ISREG(status.st_mode)) return refuse("not a regular file");
  if (!is_new && status.st_uid != ::geteuid())
    return refuse("the file there belongs to uid " + std::to_string(status.st_uid));
  if (is_locked_by_another(fd.get())) return refuse("another dlprobe writes to it");
  if (::ftruncate(fd.get(), 0) != 0) return os_failure("truncate " + path);
  // An older file of that name may have been open to others.
  if (::fchmod(fd.get(), 0600) != 0) return os_failure("chmod " + path);
  return AppendFile(std::move(fd), path);
}

Status AppendFile::rewrite(std::string_view bytes) {
  DLP_TRY(fd_, replace_file(path_, bytes));
  is_locked_by_another(fd_.get());  // it is new: nobody has it
  size_ = static_cast<int64_t>(bytes.size());
  return {};
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
