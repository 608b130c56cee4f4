#include "tools/dlprobe/options/path_template.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "lib/os/host_facts.h"
#include "tools/dlprobe/config/own_environment.h"

namespace dlprobe {
namespace {

std::string host_name() {
  utsname names{};
  return ::uname(&names) == 0 ? std::data(names.nodename) : "";
}

std::optional<std::string> value_of(char letter) {
  const JobFacts job = read_job_facts(own_environment);
  switch (letter) {
    case 'h':
      return job.node.empty() ? host_name() : job.node;
    case 'j':
      return job.job_id.empty() ? "none" : job.job_id;
    case 'r':
      return job.rank.empty() ? "none" : job.rank;
    case 'p':
      return std::to_string(::getpid());
    case '%':
      return "%";
    default:
      return std::nullopt;
  }
}

}  // namespace

Expected<std::string> expand_path(const std::string& path) {
  std::string result;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      result += path[i];
      continue;
    }
    auto value = i + 1 < path.size() ? value_of(path[i + 1]) : std::nullopt;
    if (!value) {
      return failure(ErrorCode::kInvalid,
                     path + ": '" + path.substr(i, 2) +
                         "' stands for nothing: %h is the node, %j the job, %r the rank, %p the "
                         "pid, %% a percent sign");
    }
    std::ranges::replace(*value, '/', '_');
    result += *value;
    ++i;
  }
  return result;
}

}  // namespace dlprobe
