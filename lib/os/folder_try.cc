#include "lib/os/folder_try.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "lib/base/unique_fd.h"
#include "lib/os/atomic_file.h"
#include "lib/os/disposable.h"

namespace dlprobe {
namespace {

namespace fs = std::filesystem;

Status write_a_page(int fd, const std::string& path) {
  const std::string page(4096, '\0');
  return write_all(fd, page, "a file in " + path);
}

Status try_writing(const std::string& path) {
  const UniqueFd unnamed(::open(path.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (unnamed) return write_a_page(unnamed.get(), path);
  if (errno != EOPNOTSUPP && errno != EISDIR) return os_failure("create a file in " + path);
  std::string name = path + "/dlprobe-XXXXXX";
  const UniqueFd named(::mkostemp(name.data(), O_CLOEXEC));
  if (!named) return os_failure("create a file in " + path);
  ::unlink(name.c_str());
  return write_a_page(named.get(), path);
}

Status try_reading(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  if (!file) return os_failure("open " + path);
  std::array<char, 4096> buffer{};
  if (::read(file.get(), buffer.data(), buffer.size()) < 0) return os_failure("read " + path);
  return {};
}

// The first regular file, if there is one; counts what it passes.
Expected<std::string> first_file(const std::string& path, uint64_t most, uint64_t& entries) {
  std::error_code error;
  std::string folder;
  std::string file;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    if (++entries >= most) break;
    std::error_code ignored;
    if (file.empty() && at->is_regular_file(ignored)) file = at->path().string();
    if (folder.empty() && at->is_directory(ignored)) folder = at->path().string();
  }
  if (error) return os_failure("list " + path, error.value());
  if (!file.empty() || folder.empty()) return file;
  uint64_t below = 0;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (++below >= most) break;
    std::error_code ignored;
    if (at->is_regular_file(ignored)) return at->path().string();
  }
  if (error) return os_failure("list " + folder, error.value());
  return file;
}

}  // namespace

Expected<FolderTry> try_folder(const std::string& path, FolderUse use, uint64_t most_entries) {
  FolderTry result;
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return os_failure("look at " + path);
  if (!S_ISDIR(status.st_mode)) {
    result.trouble = path + " is no folder";
    return result;
  }
  struct statvfs space{};
  if (::statvfs(path.c_str(), &space) == 0) result.free_bytes = space.f_bavail * space.f_frsize;
  if (use == FolderUse::kWrite) {
    if (const Status written = try_writing(path); !written)
      result.trouble = to_string(written.error());
    return result;
  }
  uint64_t entries = 0;
  const auto file = first_file(path, most_entries, entries);
  if (!file) {
    result.trouble = to_string(file.error());
    return result;
  }
  result.entries = entries;
  if (file->empty()) {
    result.trouble = path + " holds no file, nor does the first folder in it";
  } else if (const Status read = try_reading(*file); !read) {
    result.trouble = to_string(read.error());
  }
  return result;
}

namespace {

/// A FolderTry as it comes from the other process; the trouble follows it.
struct FolderTryHead {
  uint64_t free_bytes = 0;
  uint64_t entries = 0;
  bool has_free_bytes = false;
  bool has_entries = false;
};

std::string pack(const FolderTry& tried) {
  const FolderTryHead head{.free_bytes = tried.free_bytes.value_or(0),
                           .entries = tried.entries.value_or(0),
                           .has_free_bytes = tried.free_bytes.has_value(),
                           .has_entries = tried.entries.has_value()};
  std::string bytes(sizeof head, '\0');
  std::memcpy(bytes.data(), &head, sizeof head);
  return bytes + tried.trouble;
}

FolderTry unpack(std::string_view bytes) {
  FolderTryHead head;
  std::memcpy(&head, bytes.data(), sizeof head);
  FolderTry tried{.trouble = std::string(bytes.substr(sizeof head))};
  if (head.has_free_bytes) tried.free_bytes = head.free_bytes;
  if (head.has_entries) tried.entries = head.entries;
  return tried;
}

}  // namespace

Expected<FolderTry> try_folder_within(std::chrono::nanoseconds limit, const std::string& path,
                                      FolderUse use, uint64_t most_entries) {
  const auto job = [&] {
    const auto tried = try_folder(path, use, most_entries);
    return pack(tried ? *tried : FolderTry{.trouble = to_string(tried.error())});
  };
  DLP_TRY(const std::string bytes, run_disposable("look at " + path, job, limit));
  if (bytes.size() < sizeof(FolderTryHead)) {
    return failure(ErrorCode::kVanished, "look at " + path + ": who looked has died");
  }
  return unpack(bytes);
}

}  // namespace dlprobe
