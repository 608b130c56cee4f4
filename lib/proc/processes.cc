#include "lib/proc/processes.h"

#include <string>

#include "lib/base/parse.h"

namespace dlprobe {

Expected<std::vector<int32_t>> list_pids(const Directory& root) {
  DLP_TRY(const std::vector<std::string> names, root.list("proc"));
  std::vector<int32_t> pids;
  for (const std::string& name : names) {
    if (const auto pid = parse_int<int32_t>(name)) pids.push_back(*pid);
  }
  return pids;
}

Expected<PidStat> read_pid_stat(const Directory& root, int32_t pid) {
  return chain(root.read("proc/" + std::to_string(pid) + "/stat"), parse_pid_stat);
}

Expected<PidStatus> read_pid_status(const Directory& root, int32_t pid) {
  return chain(root.read("proc/" + std::to_string(pid) + "/status"), parse_pid_status);
}

}  // namespace dlprobe
