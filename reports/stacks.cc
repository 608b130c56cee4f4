#include "reports/stacks.h"

#include <algorithm>

#include "reports/sections.h"
#include "reports/stack_json.h"

namespace dlprobe {
namespace {

bool is_wanted(const StackFrame& frame, FrameChoice choice) {
  return choice == FrameChoice::kAll || frame.python == (choice == FrameChoice::kPython);
}

Json identity_of(const ProcessKey& key, const std::vector<ProcessInfo>& processes) {
  Json entry = {{"pid", key.pid}, {"start_ticks", key.start_ticks}};
  const auto info = std::ranges::find(processes, key, &ProcessInfo::key);
  if (info == processes.end()) return entry;
  entry["ppid"] = info->ppid;
  entry["role"] = to_string(info->role);
  entry["role_basis"] = json_text(info->role_basis);
  entry["comm"] = json_text(info->comm);
  entry["cmdline"] = json_texts(info->cmdline);
  if (info->namespace_pids.size() > 1) entry["namespace_pids"] = info->namespace_pids;
  return entry;
}

Json channel_end_json(const ChannelEnd& end) {
  return {{"inode", end.inode},  {"kind", json_text(end.kind)},
          {"pid", end.pid},      {"comm", json_text(end.comm)},
          {"fd", end.fd},        {"reads", end.reads},
          {"writes", end.writes}};
}

std::string_view to_string(FrameChoice choice) {
  if (choice == FrameChoice::kPython) return "python";
  return choice == FrameChoice::kNative ? "native" : "all";
}

}  // namespace

Json make_stacks(const StacksLook& look, FrameChoice choice) {
  RecordingHeader clocks;
  clocks.realtime_ns = look.realtime_ns;
  clocks.boottime_ns = look.snapshot.at;
  Json document = {{"kind", "dlprobe.stacks"},
                   {"schema_version", kStacksSchemaVersion},
                   {"tool", {{"name", "dlprobe"}, {"version", json_text(look.version)}}},
                   {"host",
                    {{"name", json_text(look.host.name)},
                     {"kernel", json_text(look.host.kernel)},
                     {"machine", json_text(look.host.machine)}}},
                   {"asked_pid", look.asked_pid},
                   {"frames", to_string(choice)}};
  TimeOfDay(clocks).put(document, "taken", look.snapshot.at);
  Json processes = Json::array();
  for (ProcessSnapshot process : look.snapshot.processes) {
    for (ThreadSnapshot& thread : process.threads) {
      std::erase_if(thread.stack,
                    [&](const StackFrame& frame) { return !is_wanted(frame, choice); });
    }
    Json entry = identity_of(process.key, look.processes);
    entry.update(process_snapshot_json(process, look.host.machine));
    processes.push_back(std::move(entry));
  }
  document["processes"] = std::move(processes);
  Json ends = Json::array();
  for (const ChannelEnd& end : look.snapshot.channel_ends)
    ends.push_back(channel_end_json(end));
  document["channel_ends"] = std::move(ends);
  Json limitations = Json::array();
  for (const Gap& gap : look.gaps) {
    limitations.push_back({{"what", json_text(gap.what)},
                           {"why", json_text(gap.why)},
                           {"effect", json_text(gap.effect)},
                           {"remedy", json_text(gap.remedy)}});
  }
  document["limitations"] = std::move(limitations);
  return document;
}

}  // namespace dlprobe
