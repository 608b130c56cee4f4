#include "lib/os/private_folder.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace dlprobe {

Expected<PrivateFolder> PrivateFolder::make(std::string_view name_prefix) {
  const char* named = std::getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nobody sets it
  std::string path = named == nullptr || *named != '/' ? "/tmp" : named;
  path += '/';
  path += name_prefix;
  path += "-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return os_failure("make a folder " + path);
  return PrivateFolder(std::move(path));
}

PrivateFolder::~PrivateFolder() {
  if (path_.empty()) return;
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(path_, ignored);
}

Expected<UniqueFd> PrivateFolder::make_fifo(std::string_view name) const {
  const std::string path = path_ + "/" + std::string(name);
  if (::mkfifo(path.c_str(), S_IRUSR | S_IWUSR) != 0) return os_failure("make a FIFO " + path);
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
