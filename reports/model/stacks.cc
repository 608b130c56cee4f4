#include "reports/model/stacks.h"

#include <algorithm>

#include "reports/model/sections.h"
#include "reports/model/stack_section.h"

namespace dlprobe {
namespace {

bool is_wanted(const StackFrame& frame, FrameChoice choice) {
  return choice == FrameChoice::kAll || frame.python == (choice == FrameChoice::kPython);
}

report::StacksProcess stacks_process_of(const ProcessKey& key,
                                        const std::vector<ProcessInfo>& processes) {
  report::StacksProcess entry;
  entry.pid = key.pid;
  entry.start_ticks = key.start_ticks;
  const auto info = std::ranges::find(processes, key, &ProcessInfo::key);
  if (info == processes.end()) return entry;
  entry.ppid = info->ppid;
  entry.role = info->role;
  entry.role_basis = info->role_basis;
  if (const JobRank* rank = info->rank_of_several()) entry.rank = rank->rank;
  entry.comm = info->comm;
  entry.cmdline = info->cmdline;
  if (info->namespace_pids.size() > 1) entry.namespace_pids = info->namespace_pids;
  return entry;
}

report::ChannelEnd channel_end_of(const ChannelEnd& end) {
  return {.inode = end.inode,
          .kind = std::string(to_string(end.kind)),
          .pid = end.pid,
          .comm = end.comm,
          .fd = end.fd,
          .reads = end.reads,
          .writes = end.writes};
}

}  // namespace

report::Stacks make_stacks(const StacksLook& look, FrameChoice choice) {
  RecordingHeader clocks;
  clocks.realtime_ns = look.realtime_ns;
  clocks.boottime_ns = look.snapshot.at;
  report::Stacks stacks;
  stacks.schema_version = report::VersionText(kStacksSchemaVersion);
  stacks.tool.version = look.version;
  stacks.host = {.name = look.host.name, .kernel = look.host.kernel, .machine = look.host.machine};
  stacks.asked_pid = look.asked_pid;
  stacks.frames = choice;
  stacks.taken = TimeOfDay(clocks).moment(look.snapshot.at);
  for (ProcessSnapshot process : look.snapshot.processes) {
    for (ThreadSnapshot& thread : process.threads) {
      std::erase_if(thread.stack,
                    [&](const StackFrame& frame) { return !is_wanted(frame, choice); });
    }
    report::StacksProcess& entry =
        stacks.processes.emplace_back(stacks_process_of(process.key, look.processes));
    entry.look = last_look_of(process, look.host.machine);
  }
  for (const ChannelEnd& end : look.snapshot.channel_ends)
    stacks.channel_ends.push_back(channel_end_of(end));
  Sentences sentences;
  for (const Gap& gap : look.gaps)
    stacks.limitations.push_back(sentences.texts_of(gap));
  return stacks;
}

}  // namespace dlprobe
