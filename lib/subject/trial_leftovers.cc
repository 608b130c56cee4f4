#include "lib/subject/trial_leftovers.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "lib/base/parse.h"
#include "lib/proc/maps.h"

namespace dlprobe {
namespace {

constexpr std::string_view kSemaphores = "/dev/shm/sem.";

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

void LostSemaphores::note(const Directory& proc, pid_t pid) {
  const auto text = proc.read(fmt::format("{}/maps", pid), kMapsLimit);
  const auto maps = text ? parse_maps(*text) : Expected<std::vector<Mapping>>();
  for (const Mapping& mapping : maps.value_or(std::vector<Mapping>()))
    if (mapping.path.starts_with(kSemaphores)) mapped_.emplace(mapping.device, mapping.inode);
  const auto fds = proc.list(fmt::format("{}/fd", pid));
  for (const std::string& fd : fds.value_or(std::vector<std::string>())) {
    const std::string name = fmt::format("{}/fd/{}", pid, fd);
    const auto stat = proc.stat(name);
    if (stat && proc.read_link(name).value_or("").starts_with(kSemaphores))
      open_.emplace(stat->device, stat->inode);
  }
}

void LostSemaphores::remove(const Directory& root) const {
  if (mapped_.empty() && open_.empty()) return;
  for (const std::string& name : root.list("dev/shm").value_or(std::vector<std::string>())) {
    const std::string path = "/dev/shm/" + name;
    if (!path.starts_with(kSemaphores)) continue;
    const auto stat = root.stat_link(path);
    if (!stat) continue;
    const std::pair<uint64_t, uint64_t> key(stat->device, stat->inode);
    const bool is_of_multiprocessing = path.substr(kSemaphores.size()).starts_with("mp-");
    if (open_.contains(key) || (is_of_multiprocessing && mapped_.contains(key)))
      ::unlink(path.c_str());
  }
}

}  // namespace dlprobe
