#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "lib/model/loader_plan.h"
#include "lib/model/process.h"
#include "reports/model/objects/stacks.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// The newest of each value while the process lived.
struct ProcessMemory {
  std::optional<uint64_t> rss_bytes;
  std::optional<uint64_t> private_bytes;
  std::optional<uint64_t> pss_bytes;
  std::optional<uint64_t> swap_bytes;
  std::optional<uint64_t> page_table_bytes;
};
constexpr void list_fields(auto&& field, Of<ProcessMemory> /*of*/) {
  field("rss_bytes", &ProcessMemory::rss_bytes);
  field("private_bytes", &ProcessMemory::private_bytes, "pages that no other process has (USS)");
  field("pss_bytes", &ProcessMemory::pss_bytes);
  field("swap_bytes", &ProcessMemory::swap_bytes);
  field("page_table_bytes", &ProcessMemory::page_table_bytes);
}

/// How a process ended.
struct ProcessExit {
  std::string text;
  std::optional<int64_t> signal;
  std::optional<int64_t> exit_code;
  std::string source;
  Moment seen;
};
constexpr void list_fields(auto&& field, Of<ProcessExit> /*of*/) {
  field("text", &ProcessExit::text, Holds::kSentence);
  field("signal", &ProcessExit::signal);
  field("exit_code", &ProcessExit::exit_code);
  field("source", &ProcessExit::source, Holds::kWord);
  field("seen", &ProcessExit::seen);
}

/// A process of the tree in one run.
struct Process {
  uint64_t run = 0;
  int64_t pid = 0;
  uint64_t start_ticks = 0;
  int64_t ppid = 0;
  Role role{};
  std::string role_basis;
  std::optional<StartMethod> start_method;
  std::optional<int32_t> rank;
  std::optional<int32_t> world_size;
  std::optional<std::string> job;
  std::string comm;
  std::vector<std::string> cmdline;
  std::optional<std::string> exe;
  std::optional<std::string> exe_unreadable;
  std::optional<uint64_t> uid;
  std::optional<std::string> uid_unreadable;
  std::optional<std::vector<int32_t>> namespace_pids;
  std::optional<std::string> cgroup;
  std::optional<uint64_t> open_files_limit;
  std::optional<uint64_t> rss_peak_bytes;
  std::optional<uint64_t> fds_peak;
  std::optional<ProcessMemory> memory;
  std::optional<NamedCounts> fd_kinds;
  Moment first_seen;
  std::optional<Doing> doing;
  std::optional<std::string> state;
  std::optional<LastLook> look;
  std::optional<ProcessExit> exit;
};
constexpr void list_fields(auto&& field, Of<Process> /*of*/) {
  field("run", &Process::run);
  field("pid", &Process::pid);
  field("start_ticks", &Process::start_ticks);
  field("ppid", &Process::ppid);
  field("role", &Process::role);
  field("role_basis", &Process::role_basis, Holds::kWord);
  field("start_method", &Process::start_method);
  field("rank", &Process::rank, "of a distributed job, as its launcher has told it");
  field("world_size", &Process::world_size, "ranks of that job");
  field("job", &Process::job, Holds::kText,
        "tells jobs apart: where its ranks meet, or the launcher's name for it");
  field("comm", &Process::comm, Holds::kName);
  field("cmdline", &Process::cmdline, Holds::kArgument, "secrets masked");
  field("exe", &Process::exe, Holds::kPath);
  field("exe_unreadable", &Process::exe_unreadable, "why exe could not be read");
  field("uid", &Process::uid);
  field("uid_unreadable", &Process::uid_unreadable, "why uid could not be read");
  field("namespace_pids", &Process::namespace_pids);
  field("cgroup", &Process::cgroup, Holds::kPath);
  field("open_files_limit", &Process::open_files_limit);
  field("rss_peak_bytes", &Process::rss_peak_bytes);
  field("fds_peak", &Process::fds_peak);
  field("memory", &Process::memory, "the newest of each value while the process lived");
  field("fd_kinds", &Process::fd_kinds,
        "descriptors by what they lead to, at the newest count; kinds without any are left out");
  field("first_seen", &Process::first_seen);
  field("", &Process::doing);
  field("state", &Process::state, Holds::kWord, "of its main thread at the last look: R S D T t Z");
  field("", &Process::look);
  field("exit", &Process::exit);
}

}  // namespace dlprobe::report
