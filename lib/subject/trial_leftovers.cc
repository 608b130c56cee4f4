#include "lib/subject/trial_leftovers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lib/base/parse.h"

namespace dlprobe {
namespace {

bool is_folder_of_multiprocessing(const std::string& path) {
  struct stat status = {};
  return std::filesystem::path(path).filename().string().starts_with("pymp-") &&
         ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         status.st_uid == ::geteuid();
}

}  // namespace

void remove_leftovers(const std::string& folder) {
  const auto directory = open_root(folder);
  if (!directory) return;
  const auto text = (*directory)->read("leftovers");
  if (!text) return;  // nothing was made
  for_each_line(*text, [](std::string_view path) {
    std::error_code ignored;  // what is in use stays
    if (is_folder_of_multiprocessing(std::string(path))) std::filesystem::remove_all(path, ignored);
  });
}

bool is_resource_tracker(const Directory& proc, pid_t pid) {
  const auto arguments = proc.read(std::to_string(pid) + "/cmdline");
  if (!arguments) return false;
  // As lib/collect/tree/roles.cc knows them.
  constexpr std::array<std::string_view, 2> kPrograms = {
      "from multiprocessing.resource_tracker import main",
      "from multiprocessing.semaphore_tracker import main"};
  return std::ranges::any_of(
      kPrograms, [&](std::string_view program) { return arguments->contains(program); });
}

}  // namespace dlprobe
