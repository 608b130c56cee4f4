#include "lib/os/folder_try.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

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

// Looks for a file that can be read, the files of a folder before its folders, deep before wide: a
// data set may have levels above its files, and beside them what is not for this user.
class FileSearch {
 public:
  explicit FileSearch(uint64_t most_entries) : most_(most_entries) {}

  /// Empty: one was read. Else why not.
  std::string run(const std::string& path) {
    std::vector<std::string> folders = {path};
    uint64_t looked_at = 0;
    while (!folders.empty() && looked_at < kMostFolders) {
      ++looked_at;
      const std::string folder = std::move(folders.back());
      folders.pop_back();
      const bool was_found = look_into(folder, folders);
      if (looked_at == 1) entries_ = passed_;
      if (was_found) return "";
    }
    if (!trouble_.empty()) return trouble_;
    return folders.empty()
               ? fmt::format("{} holds no file, nor do the folders in it", path)
               : fmt::format("no file in the first {} folders below {}", kMostFolders, path);
  }

  /// Of the folder itself.
  uint64_t entries() const { return entries_; }

 private:
  static constexpr uint64_t kMostFolders = 1000;
  static constexpr int kMostTried = 8;  ///< files of one folder

  // Whether a file was read.
  bool look_into(const std::string& folder, std::vector<std::string>& folders) {
    std::error_code error;
    const size_t before = folders.size();
    uint64_t here = 0;
    int tried = 0;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
      ++passed_;
      if (++here >= most_) break;
      std::error_code ignored;
      if (at->is_directory(ignored)) folders.push_back(at->path().string());
      if (tried >= kMostTried || !at->is_regular_file(ignored)) continue;
      ++tried;
      const Status read = try_reading(at->path().string());
      if (read) was_found_ = true;
      if (!read) note(to_string(read.error()));
      // Of the folder that was asked for all are counted.
      if (was_found_ && before > 0) return true;
    }
    if (error) note(to_string(os_error("list " + folder, error.value())));
    std::reverse(folders.begin() + static_cast<std::ptrdiff_t>(before), folders.end());
    return was_found_;
  }

  void note(std::string trouble) {
    if (trouble_.empty()) trouble_ = std::move(trouble);
  }

  uint64_t most_;
  uint64_t passed_ = 0;
  uint64_t entries_ = 0;
  bool was_found_ = false;
  std::string trouble_;
};

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
  FileSearch search(most_entries);
  result.trouble = search.run(path);
  result.entries = search.entries();
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
