// The threads of each process with their frames.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/number_ranges.h"
#include "lib/base/units.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

// Threads of one process that stand in the same frames.
struct AlikeThreads {
  const report::Thread* first = nullptr;
  std::vector<int64_t> tids;
  std::optional<double> blocked_for_s;  ///< of the one that has blocked last; nothing: one runs
};

std::string key_of_thread(const report::Thread& thread) {
  std::string key = fmt::format("{}|{}|{}", thread.comm, thread.state,
                                without_numbers(thread.stack_note.value_or("")));
  for (const report::Frame& frame : thread.stack)
    key += '\n' + frame_text(frame, true);
  return key;
}

std::vector<AlikeThreads> fold_threads(const LookedAt& process, const AlikeWaits& waits) {
  std::vector<AlikeThreads> groups;
  std::map<std::string, size_t> places;
  for (const report::Thread& thread : process.look->threads) {
    const std::string key = waits.key_in_process(thread) + '|' + key_of_thread(thread);
    const auto [place, is_new] = places.try_emplace(key, groups.size());
    if (is_new) groups.push_back({.first = &thread, .blocked_for_s = thread.blocked_for_s});
    AlikeThreads& group = groups[place->second];
    group.tids.push_back(thread.tid);
    group.blocked_for_s = std::min(group.blocked_for_s, thread.blocked_for_s);
  }
  return groups;
}

std::vector<FoldedProcesses> fold_stacks(const std::vector<LookedAt>& processes,
                                         const AlikeWaits& waits) {
  std::vector<AlikeProcess> keys;
  for (const LookedAt& process : processes) {
    std::string key =
        fmt::format("{}|{}|{}|{}", process.run, shown(process.role), shown(process.look->python),
                    without_numbers(process.look->python_note.value_or("")));
    for (const report::Thread& thread : process.look->threads)
      key += '\n' + waits.key_among_processes(process, thread) + '|' + key_of_thread(thread);
    keys.push_back({.process = &process, .key = std::move(key)});
  }
  std::vector<FoldedProcesses> groups = waits.fold(keys);
  std::ranges::stable_sort(
      groups, {}, [](const FoldedProcesses& group) { return role_rank(group.first->role); });
  return groups;
}

// "for 2 h", where it is long enough to mean something: of threads that stand alike the shortest.
std::string blocked_text(const AlikeThreads& group) {
  constexpr double kWorthAWord = 1;
  const auto shortest = group.blocked_for_s.value_or(0);
  if (shortest < kWorthAWord) return "";
  const auto span = std::chrono::nanoseconds(static_cast<int64_t>(shortest * 1e9));
  return (group.tids.size() > 1 ? ", for at least " : ", for ") + format_duration(span);
}

std::string thread_doing(const report::Thread& thread) {
  const std::string waits = shown(thread.waits_for);
  const std::string state = shown(thread.state);
  if (state == "T" || state == "t") return waits.empty() ? "stopped" : "stopped in " + waits;
  if (state == "D") return "in the kernel, " + (waits.empty() ? "uninterruptible" : waits);
  if (!waits.empty()) return "waits for " + waits;
  return state == "R" ? "running" : "state " + state;
}

bool is_nameless(const report::Frame& frame) {
  return frame.function.empty() && frame.name.value_or("").empty() && frame.offset;
}

// Frames without a name in a row, of one file, take one line: "?? (libgomp.so.1+0x1de8e,
// +0x1b498)".
size_t add_nameless(List& frames, const std::vector<report::Frame>& stack, size_t from) {
  std::string text = frame_text(stack[from]);
  size_t next = from + 1;
  for (; next < stack.size() && is_nameless(stack[next]) && stack[next].file == stack[from].file;
       ++next) {
    text.pop_back();
    text += fmt::format(", +{:#x})", stack[next].offset.value_or(0));
  }
  frames.add(Span{.text = text, .mark = Mark::kQuiet});
  return next;
}

List frames_of(const report::Thread& thread, bool is_whole) {
  List frames = {.kind = ListKind::kFrames};
  const std::vector<report::Frame>& stack = thread.stack;
  for (size_t i = 0; i < stack.size();) {
    if (!is_whole && is_nameless(stack[i])) {
      i = add_nameless(frames, stack, i);
      continue;
    }
    const std::string text = frame_text(stack[i], is_whole);
    const bool is_python = stack[i].kind == report::FrameKind::kPython;
    frames.add(
        Span{.text = text.empty() ? "??" : text, .mark = is_python ? Mark::kPlain : Mark::kQuiet});
    ++i;
  }
  const std::string note = shown(thread.stack_note);
  if (!note.empty()) frames.add(Span{.text = note, .mark = Mark::kWarn});
  return frames;
}

void add_threads(Blocks& blocks, const LookedAt& process, const AlikeWaits& waits, bool is_whole) {
  const auto holder = process.look->gil_holder;
  size_t left_out = 0;
  for (const AlikeThreads& threads : fold_threads(process, waits)) {
    List frames = frames_of(*threads.first, is_whole);
    // Under --python a thread of a native pool has nothing to show.
    if (frames.items.empty()) {
      left_out += threads.tids.size();
      continue;
    }
    const bool holds = holder && std::ranges::count(threads.tids, *holder) > 0;
    Field field = {
        .name = spans(fmt::format("thread{} {} ({}), {}{}{}", threads.tids.size() == 1 ? "" : "s",
                                  ranges_text(threads.tids), shown(threads.first->comm),
                                  thread_doing(*threads.first), blocked_text(threads),
                                  holds ? ", holds the GIL" : ""))};
    field.blocks.add(std::move(frames));
    blocks.add(std::move(field));
  }
  if (left_out > 0) blocks.say(counted(left_out, "thread") + " without such frames");
}

Card card_of_process(const LookedAt& process, const AlikeWaits& waits, bool is_whole) {
  const std::string python = shown(process.look->python);
  const std::string pause = pause_text(*process.look);
  Card card = {.title = spans(strong(process_name(process.role, process.rank, process.pid)),
                              "(" + shown(process.comm) + ")" +
                                  (python.empty() ? "" : ", Python " + python) +
                                  (pause.empty() ? ", not stopped" : ", stopped for " + pause)),
               .fold = Fold::kClosed};
  const std::string note = shown(process.look->python_note);
  if (!note.empty())
    card.blocks.add(Paragraph{.text = spans("no Python frames: " + note), .lead = "!"});
  add_threads(card.blocks, process, waits, is_whole);
  return card;
}

Section section_of(const std::vector<LookedAt>& processes, const AlikeWaits& waits, bool is_whole) {
  Section section = {.id = "stacks",
                     .title = "Stacks at the last look, innermost frame first",
                     .is_titled_in_text = false};
  for (const FoldedProcesses& group : fold_stacks(processes, waits)) {
    section.blocks.add(card_of_process(*group.first, waits, is_whole));
    if (!group.others.empty()) section.blocks.say(same_as_text(group));
  }
  return section;
}

}  // namespace

std::vector<LookedAt> looked_at(const report::Report& report) {
  std::vector<LookedAt> processes;
  for (const report::Process& process : report.processes) {
    if (!process.look) continue;
    processes.push_back({.pid = process.pid,
                         .role = process.role,
                         .rank = process.rank,
                         .comm = process.comm,
                         .run = process.run,
                         .look = &*process.look,
                         .process = &process});
  }
  return processes;
}

Section stacks_of(const report::Report& report) {
  const std::vector<LookedAt> processes = looked_at(report);
  return section_of(processes, AlikeWaits(processes, {}, report.wait_graph), /*is_whole=*/false);
}

Section stacks_of(const report::Stacks& stacks, bool is_whole) {
  std::vector<LookedAt> processes;
  processes.reserve(stacks.processes.size());
  for (const report::StacksProcess& process : stacks.processes) {
    processes.push_back({.pid = process.pid,
                         .role = process.role,
                         .rank = process.rank,
                         .comm = process.comm.value_or(""),
                         .look = &process.look});
  }
  return section_of(processes, AlikeWaits(processes, stacks.channel_ends, {}), is_whole);
}

}  // namespace dlprobe::document
