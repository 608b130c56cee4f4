#include "lib/subject/launch_limits.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Below it the kernel has no room for a process's stack and page tables.
constexpr uint64_t kLeastMemory = kMiB;
constexpr uint64_t kLeastShm = 4096;  // a page
// The standard streams, and one with which the loader of programs opens libraries.
constexpr uint64_t kLeastOpenFiles = 4;

uint64_t own_hard_limit() {
  const std::optional<Limit> own = open_files_limit_of_children();
  return own ? own->hard.value_or(UINT64_MAX) : UINT64_MAX;
}

Status check_soft_limit(const LaunchLimits& limits) {
  if (!limits.soft_open_files) return {};
  const uint64_t hard = limits.open_files.value_or(own_hard_limit());
  if (*limits.soft_open_files <= hard) return {};
  return failure(
      ErrorCode::kInvalid,
      fmt::format("{} open files are above the hard limit of {}{}", *limits.soft_open_files, hard,
                  limits.open_files ? " (--limit-fds)" : " (ulimit -Hn)"));
}

}  // namespace

Status check_launch_limits(const LaunchLimits& limits) {
  if (limits.memory_bytes && *limits.memory_bytes < kLeastMemory) {
    return failure(
        ErrorCode::kInvalid,
        fmt::format("--limit-memory {} is too little to start a program: give 1m or more",
                    format_bytes(*limits.memory_bytes)));
  }
  if (limits.shm_bytes && *limits.shm_bytes < kLeastShm) {
    return failure(ErrorCode::kInvalid, fmt::format("--shm-size {} is less than a page",
                                                    format_bytes(*limits.shm_bytes)));
  }
  DLP_CHECK(check_soft_limit(limits));
  if (!limits.open_files) return {};
  if (*limits.open_files < kLeastOpenFiles) {
    return failure(ErrorCode::kInvalid,
                   fmt::format("--limit-fds {} is too little to start a program: give {} or more",
                               *limits.open_files, kLeastOpenFiles));
  }
  const uint64_t hard = own_hard_limit();
  if (*limits.open_files > hard) {
    return failure(
        ErrorCode::kInvalid,
        fmt::format("--limit-fds {} is above the hard limit {} of dlprobe itself (ulimit "
                    "-Hn)",
                    *limits.open_files, hard));
  }
  return {};
}

Expected<LaunchScope> LaunchScope::prepare(const Machine& machine, const LaunchLimits& limits) {
  DLP_CHECK(check_launch_limits(limits));
  LaunchScope scope(limits);
  if (!limits.memory_bytes) return scope;
  scope.tree_ = std::make_unique<CgroupTree>();
  auto group = MemoryGroup::create(machine, *scope.tree_, *limits.memory_bytes);
  if (!group) {
    group.error().context = "--limit-memory: " + group.error().context;
    return std::unexpected(std::move(group).error());
  }
  scope.group_ = std::move(*group);
  return scope;
}

Message LaunchScope::description() const {
  Message text;
  const auto add = [&text](const Message& part) { text += (text.empty() ? "" : ", ") + part; };
  if (group_ && limits_.memory_bytes) {
    add(say("memory {} (cgroup {})", format_bytes(*limits_.memory_bytes), as_path(group_->path())));
  }
  if (limits_.open_files) add(counted(*limits_.open_files, "open file"));
  if (limits_.soft_open_files)
    add("a soft limit of " + counted(*limits_.soft_open_files, "open file"));
  if (limits_.shm_bytes) add("a /dev/shm of its own of " + format_bytes(*limits_.shm_bytes));
  return text;
}

Status LaunchScope::close() {
  return group_ ? group_->remove() : Status();
}

}  // namespace dlprobe
