#include "lib/os/private_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "lib/os/atomic_file.h"

namespace dlprobe {

Expected<PrivateFolder> PrivateFolder::make(std::string_view name_prefix) {
  const char* named = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  std::string path = named == nullptr || *named != '/' ? "/tmp" : named;
  path += '/';
  path += name_prefix;
  path += "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return os_failure("make a folder " + path);
  PrivateFolder folder(std::move(path));
  if (::geteuid() == 0) DLP_CHECK(folder.let_others_in());
  return folder;
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

}  // namespace dlprobe
