#include "tools/dlprobe/job_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/os/atomic_file.h"
#include "lib/session/jobs.h"
#include "lib/session/target.h"
#include "reports/jobs.h"
#include "tools/dlprobe/process/own_process.h"
#include "tools/dlprobe/version.h"

namespace dlprobe {
namespace {

std::string of_others(size_t count) {
  if (count == 0) return "";
  return fmt::format("; dlprobe may not look into {}", std::string(counted(count, "process")));
}

Status show_on_stderr(const std::vector<LoaderJob>& jobs) {
  constexpr int kListColumns = 100;
  const TextOptions options{.color = false, .width = columns_at(STDERR_FILENO, kListColumns)};
  const AnyDocument document = make_jobs(kVersion, {.jobs = jobs});
  return write_all(STDERR_FILENO, jobs_formats().front().render(document, options), "stderr");
}

// A number is a pid or a wrong one, whatever jobs are called; "" is a variable of a script that was
// not set.
bool is_pid(const std::string& typed) {
  return typed.find_first_not_of("0123456789+-.") == std::string::npos;
}

// A person at a terminal types the pid of any process, or the name of one of the jobs.
std::optional<int32_t> ask(const std::vector<LoaderJob>& jobs) {
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1) return std::nullopt;
  for (;;) {
    std::cerr << "pid or name of the job (q: none): " << std::flush;
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    const std::string typed(trim(line));
    if (typed.empty() || typed == "q") return std::nullopt;
    if (is_pid(typed)) {
      if (const auto pid = parse_pid(typed)) return *pid;
      complain(fmt::format("{} is no pid", typed));
      continue;
    }
    const auto named = jobs_named(jobs, typed);
    if (named.size() == 1) return named.front().root.pid;
    complain(fmt::format("{} of these jobs are called '{}'", named.size(), typed));
  }
}

Error none_of(const LoaderJobs& all, const std::optional<std::string>& name) {
  const std::string others = of_others(all.unseen);
  if (name && !all.jobs.empty()) {
    return {.code = ErrorCode::kVanished,
            .context = fmt::format("no job of this machine is called '{}': dlprobe ps lists them{}",
                                   *name, others)};
  }
  return {.code = ErrorCode::kVanished,
          .context = fmt::format("no job on this machine loads data by worker processes; name a "
                                 "process by its pid{}",
                                 others)};
}

Expected<int32_t> choose_job(const Machine& machine, const std::optional<std::string>& name) {
  DLP_TRY(const LoaderJobs all, find_jobs(machine));
  std::vector<LoaderJob> jobs = name ? jobs_named(all.jobs, *name) : all.jobs;
  const size_t forbidden = std::erase_if(jobs, [](const LoaderJob& job) { return !job.may_look; });
  // A pool of multiprocessing is taken only where nothing surely loads data.
  const bool has_loader =
      std::ranges::any_of(jobs, [](const LoaderJob& job) { return !job.is_pool; });
  if (has_loader && !name) std::erase_if(jobs, [](const LoaderJob& job) { return job.is_pool; });
  if (jobs.empty() && forbidden > 0) {
    return failure(ErrorCode::kForbidden,
                   fmt::format("{} of other users may not be looked into: run dlprobe as root, or "
                               "as their user",
                               std::string(counted(forbidden, "job"))));
  }
  if (jobs.empty()) return std::unexpected(none_of(all, name));
  if (jobs.size() == 1) {
    const LoaderJob& job = jobs.front();
    complain(fmt::format("looking at process {} of {}: {}{}", job.root.pid, job.user,
                         fmt::join(job.command, " "), of_others(forbidden)));
    return job.root.pid;
  }
  DLP_CHECK(show_on_stderr(jobs));
  if (const auto pid = ask(jobs)) return *pid;
  return failure(ErrorCode::kInvalid,
                 fmt::format("{} jobs: name one by its pid or by a word of its command, such as {}",
                             jobs.size(), jobs.front().root.pid));
}

}  // namespace

Expected<int32_t> choose_process(const std::optional<std::string>& typed) {
  if (typed && is_pid(*typed)) return parse_pid(*typed);
  DLP_TRY(const Machine machine, live_machine());
  return choose_job(machine, typed);
}

}  // namespace dlprobe
