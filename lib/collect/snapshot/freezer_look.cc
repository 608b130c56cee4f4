#include "lib/collect/snapshot/freezer_look.h"

#include "lib/base/parse.h"
#include "lib/proc/cgroup_mount.h"
#include "lib/proc/mountinfo.h"
#include "lib/proc/pid_cgroup.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

constexpr std::string_view kController = "freezer";

// freezer.state of v1 is that of the group and of those above it; so is cgroup.events of v2.
bool says_frozen(const std::string& text, bool is_v2) {
  if (!is_v2) return trim(text) != "THAWED";
  return parse_flat_key(text, "frozen", "cgroup.events").value_or(0) == 1;
}

}  // namespace

std::string frozen_by(const Machine& machine, const Directory& process) {
  const auto entries = chain(process.read("cgroup"), parse_pid_cgroup);
  const auto mounts = chain(machine.root->read("proc/self/mountinfo"), parse_mountinfo);
  if (!entries || !mounts) return {};
  for (const CgroupEntry& entry : *entries) {
    const bool is_v2 = entry.hierarchy == 0;
    if (!is_v2 && controller_cgroup({entry}, kController) == nullptr) continue;
    for (const CgroupFolder& folder : cgroup_folders(entry, *mounts, kController)) {
      const std::string file = folder.path + (is_v2 ? "/cgroup.events" : "/freezer.state");
      const auto text = machine.root->read(file);
      if (text && says_frozen(*text, is_v2)) return file;
    }
  }
  return {};
}

}  // namespace dlprobe
