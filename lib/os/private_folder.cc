#include "lib/os/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "lib/os/atomic_file.h"

namespace dlprobe {
namespace {

constexpr std::string_view kPlaces = "XXXXXX";  // of mkdtemp(3)

UniqueFd open_folder(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

struct Leftover {
  std::string path;
  UniqueFd held;
};

// Whose process is gone. A new one is not locked at once, so one has to be of a certain age.
bool is_left(const Leftover& folder) {
  constexpr time_t kNew = 60;
  struct stat status{};
  return folder.held && ::fstat(folder.held.get(), &status) == 0 && status.st_uid == ::geteuid() &&
         status.st_mtime + kNew < ::time(nullptr) &&
         ::flock(folder.held.get(), LOCK_EX | LOCK_NB) == 0;
}

std::vector<Leftover> find_leftovers(const std::string& parent, std::string_view begin) {
  constexpr size_t kMost = 100;
  std::vector<Leftover> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string& path = entry.path().native();
    const std::string name = entry.path().filename().native();
    if (!name.starts_with(begin) || name.size() != begin.size() + kPlaces.size()) continue;
    Leftover folder{.path = path, .held = open_folder(path)};
    if (is_left(folder)) found.push_back(std::move(folder));
    if (found.size() == kMost) break;
  }
  return found;
}

// Those that no process could still load modules from.
void leave_out_used(std::vector<Leftover>& folders) {
  constexpr uint64_t kLargest = uint64_t{4} << 20;
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    const auto environment = read_whole_file(process.path() / "environ", kLargest);
    if (!environment) continue;
    std::erase_if(folders,
                  [&](const Leftover& folder) { return environment->contains(folder.path); });
  }
}

void remove_leftovers(const std::string& parent, std::string_view begin) {
  std::vector<Leftover> folders = find_leftovers(parent, begin);
  if (folders.empty()) return;
  leave_out_used(folders);
  std::error_code ignored;  // the next one tries again
  for (const Leftover& folder : folders)
    std::filesystem::remove_all(folder.path, ignored);
}

}  // namespace

std::vector<std::string> PrivateFolder::parents() {
  const char* named = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  std::vector<std::string> folders = {"/tmp", "/var/tmp", "/dev/shm"};
  if (named != nullptr && *named == '/') folders.insert(folders.begin(), named);
  return folders;
}

Expected<PrivateFolder> PrivateFolder::make(std::string_view name_prefix,
                                            const std::string& parent) {
  const std::string begin = std::string(name_prefix) + "-";
  remove_leftovers(parent, begin);
  std::string path = parent + "/" + begin + std::string(kPlaces);
  if (::mkdtemp(path.data()) == nullptr) return os_failure("make a folder " + path);
  PrivateFolder folder(std::move(path));
  if (::geteuid() == 0) DLP_CHECK(folder.let_others_in());
  return folder;
}

PrivateFolder::PrivateFolder(std::string path)
    : outer_(path), path_(std::move(path)), held_(open_folder(outer_)) {
  // Where the file system has no locks, the next dlprobe asks the environments alone.
  if (held_) ::flock(held_.get(), LOCK_SH | LOCK_NB);
}

Status PrivateFolder::let_others_in() {
  constexpr mode_t kReach = 0711;
  constexpr mode_t kRead = 0755;
  std::array<uint64_t, 2> bits{};
  if (::getrandom(bits.data(), sizeof bits, 0) != sizeof bits) return os_failure("getrandom");
  const std::string inner = outer_ + fmt::format("/{:016x}{:016x}", bits[0], bits[1]);
  if (::mkdir(inner.c_str(), kRead) != 0 || ::chmod(inner.c_str(), kRead) != 0 ||
      ::chmod(outer_.c_str(), kReach) != 0) {
    return os_failure("make a folder " + inner);
  }
  path_ = inner;
  return {};
}

Status PrivateFolder::write(std::string_view name, std::string_view text) const {
  constexpr mode_t kRead = 0644;
  const std::string path = path_ + "/" + std::string(name);
  DLP_CHECK(write_file_atomically(path, text));
  if (::chmod(path.c_str(), kRead) != 0) return os_failure("change the mode of " + path);
  return {};
}

PrivateFolder::~PrivateFolder() {
  if (outer_.empty()) return;
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(outer_, ignored);
}

Expected<UniqueFd> PrivateFolder::make_fifo(std::string_view name) const {
  const std::string path = path_ + "/" + std::string(name);
  constexpr mode_t kWrite = 0622;  // whatever the umask
  if (::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::chmod(path.c_str(), kWrite) != 0)
    return os_failure("make a FIFO " + path);
  // Also open for writing, by itself: else each reader's end of file would have to be waited out.
  UniqueFd fifo(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!fifo) return os_failure("open " + path);
  return fifo;
}

std::vector<std::string> PrivateFolder::take_links(std::string_view name_prefix) const {
  std::vector<std::string> texts;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    if (!entry.path().filename().native().starts_with(name_prefix) || !entry.is_symlink(ignored))
      continue;
    texts.push_back(std::filesystem::read_symlink(entry.path(), ignored).native());
    std::filesystem::remove(entry.path(), ignored);
  }
  return texts;
}

std::map<std::string, std::string> PrivateFolder::read_files(std::string_view name_prefix) const {
  constexpr uint64_t kLargest = uint64_t{64} << 10U;
  std::map<std::string, std::string> texts;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(path_, ignored)) {
    const std::string name = entry.path().filename().native();
    if (!name.starts_with(name_prefix) || entry.is_symlink(ignored)) continue;
    if (auto text = read_whole_file(entry.path(), kLargest)) texts.emplace(name, std::move(*text));
  }
  return texts;
}

}  // namespace dlprobe
