#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/fields.h"
#include "reports/model/objects/examination.h"
#include "reports/model/objects/values.h"

namespace dlprobe::report {

/// The machine that the stacks are of.
struct StacksHost {
  std::string name;
  std::string kernel;
  std::string machine;
};
constexpr void list_fields(auto&& field, Of<StacksHost> /*of*/) {
  field("name", &StacksHost::name);
  field("kernel", &StacksHost::kernel);
  field("machine", &StacksHost::machine);
}

/// A process and its stacks.
struct StacksProcess {
  int64_t pid = 0;
  uint64_t start_ticks = 0;
  std::optional<int64_t> ppid;
  std::optional<Role> role;
  std::optional<std::string> role_basis;
  std::optional<int32_t> rank;
  std::optional<std::string> comm;
  std::optional<std::vector<std::string>> cmdline;
  std::optional<std::vector<int32_t>> namespace_pids;
  LastLook look;
};
constexpr void list_fields(auto&& field, Of<StacksProcess> /*of*/) {
  field("pid", &StacksProcess::pid);
  field("start_ticks", &StacksProcess::start_ticks);
  field("ppid", &StacksProcess::ppid);
  field("role", &StacksProcess::role);
  field("role_basis", &StacksProcess::role_basis);
  field("rank", &StacksProcess::rank, "of a distributed job");
  field("comm", &StacksProcess::comm);
  field("cmdline", &StacksProcess::cmdline, "secrets masked");
  field("namespace_pids", &StacksProcess::namespace_pids);
  field("", &StacksProcess::look);
}

/// Who has the other end of what threads wait on.
struct ChannelEnd {
  uint64_t inode = 0;
  std::string kind;
  int64_t pid = 0;
  std::string comm;
  int64_t fd = 0;
  bool reads = false;
  bool writes = false;
};
constexpr void list_fields(auto&& field, Of<ChannelEnd> /*of*/) {
  field("inode", &ChannelEnd::inode, "of a thread's `files`, or their `peer`, or its futex");
  field("kind", &ChannelEnd::kind, "pipe, socket, file lock, semaphore");
  field("pid", &ChannelEnd::pid);
  field("comm", &ChannelEnd::comm);
  field("fd", &ChannelEnd::fd, "-1: it has it mapped");
  field("reads", &ChannelEnd::reads);
  field("writes", &ChannelEnd::writes, "of a file lock: it holds it");
}

/// One look at the stacks of a process tree, without a verdict.
struct Stacks {
  Constant<"dlprobe.stacks"> kind;
  VersionText schema_version;
  Tool tool;
  StacksHost host;
  int64_t asked_pid = 0;
  FrameChoice frames{};
  Moment taken;
  std::vector<StacksProcess> processes;
  std::vector<ChannelEnd> channel_ends;
  std::vector<Gap> limitations;
};
constexpr void list_fields(auto&& field, Of<Stacks> /*of*/) {
  field("kind", &Stacks::kind);
  field("schema_version", &Stacks::schema_version);
  field("tool", &Stacks::tool);
  field("host", &Stacks::host);
  field("asked_pid", &Stacks::asked_pid, "as typed: a process or thread of the tree");
  field("frames", &Stacks::frames, "which frames were asked for");
  field("taken", &Stacks::taken);
  field("processes", &Stacks::processes);
  field("channel_ends", &Stacks::channel_ends,
        "descriptors, and mappings of semaphores, by which some process could end a wait of the "
        "tree: of the pipes, sockets, locked files and semaphores that threads wait on. Only where "
        "the tree itself does not hold the other end was the rest of the machine looked at");
  field("limitations", &Stacks::limitations, "what could not be seen");
}

}  // namespace dlprobe::report
