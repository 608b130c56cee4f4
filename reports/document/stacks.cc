// The threads of each process with their frames.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "lib/base/units.h"
#include "reports/document/alike_waits.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

// Threads of one process that stand in the same frames.
struct AlikeThreads {
  const Json* first = nullptr;
  std::vector<int64_t> tids;
  std::optional<double> blocked_for_s;  ///< of the one that has blocked last; nothing: one runs
};

std::string key_of_thread(const Json& thread) {
  std::string key = fmt::format("{}|{}|{}", text_at(thread, "comm"), text_at(thread, "state"),
                                without_numbers(text_at(thread, "stack_note")));
  for (const Json& frame : items_at(thread, "stack"))
    key += '\n' + frame_text(frame, true);
  return key;
}

std::vector<AlikeThreads> fold_threads(const Json& process, const AlikeWaits& waits) {
  std::vector<AlikeThreads> groups;
  std::map<std::string, size_t> places;
  for (const Json& thread : items_at(process, "threads")) {
    const std::string key = waits.key_in_process(thread) + '|' + key_of_thread(thread);
    const auto [place, is_new] = places.try_emplace(key, groups.size());
    const auto blocked_for = number_at(thread, "blocked_for_s");
    if (is_new) groups.push_back({.first = &thread, .tids = {}, .blocked_for_s = blocked_for});
    AlikeThreads& group = groups[place->second];
    group.tids.push_back(integer_at(thread, "tid"));
    group.blocked_for_s = std::min(group.blocked_for_s, blocked_for);
  }
  return groups;
}

std::vector<FoldedProcesses> fold_stacks(const Json& processes, const AlikeWaits& waits) {
  std::vector<AlikeProcess> keys;
  for (const Json& process : processes) {
    if (!process.is_object() || !process.contains("threads")) continue;
    std::string key =
        fmt::format("{}|{}|{}|{}", integer_at(process, "run"), text_at(process, "role"),
                    text_at(process, "python"), without_numbers(text_at(process, "python_note")));
    for (const Json& thread : items_at(process, "threads"))
      key += '\n' + waits.key_among_processes(process, thread) + '|' + key_of_thread(thread);
    keys.push_back({.process = &process, .key = std::move(key)});
  }
  std::vector<FoldedProcesses> groups = waits.fold(keys);
  std::ranges::stable_sort(groups, {}, [](const FoldedProcesses& group) {
    return role_rank(text_at(*group.first, "role"));
  });
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

std::string thread_doing(const Json& thread) {
  const std::string waits = text_at(thread, "waits_for");
  const std::string state = text_at(thread, "state");
  if (state == "T" || state == "t") return waits.empty() ? "stopped" : "stopped in " + waits;
  if (state == "D") return "in the kernel, " + (waits.empty() ? "uninterruptible" : waits);
  if (!waits.empty()) return "waits for " + waits;
  return state == "R" ? "running" : "state " + state;
}

bool is_nameless(const Json& frame) {
  return text_at(frame, "function").empty() && text_at(frame, "name").empty() &&
         number_at(frame, "offset").has_value();
}

// Frames without a name in a row, of one file, take one line: "?? (libgomp.so.1+0x1de8e,
// +0x1b498)".
size_t add_nameless(List& frames, const Json& stack, size_t from) {
  std::string text = frame_text(stack[from]);
  size_t next = from + 1;
  for (; next < stack.size() && is_nameless(stack[next]) &&
         text_at(stack[next], "file") == text_at(stack[from], "file");
       ++next) {
    text.pop_back();
    text += fmt::format(", +{:#x})", integer_at(stack[next], "offset"));
  }
  frames.add(Span{.text = text, .mark = Mark::kQuiet});
  return next;
}

List frames_of(const Json& thread, bool is_whole) {
  List frames = {.kind = ListKind::kFrames};
  const Json& stack = items_at(thread, "stack");
  for (size_t i = 0; i < stack.size();) {
    if (!is_whole && is_nameless(stack[i])) {
      i = add_nameless(frames, stack, i);
      continue;
    }
    const std::string text = frame_text(stack[i], is_whole);
    const bool is_python = text_at(stack[i], "kind") == "python";
    frames.add(
        Span{.text = text.empty() ? "??" : text, .mark = is_python ? Mark::kPlain : Mark::kQuiet});
    ++i;
  }
  frames.add(Span{.text = text_at(thread, "stack_note"), .mark = Mark::kWarn});
  if (frames.items.back().text.empty()) frames.items.pop_back();
  return frames;
}

void add_threads(Blocks& blocks, const Json& process, const AlikeWaits& waits, bool is_whole) {
  const auto holder = number_at(process, "gil_holder");
  size_t left_out = 0;
  for (const AlikeThreads& threads : fold_threads(process, waits)) {
    List frames = frames_of(*threads.first, is_whole);
    // Under --python a thread of a native pool has nothing to show.
    if (frames.items.empty()) {
      left_out += threads.tids.size();
      continue;
    }
    const bool holds =
        holder && std::ranges::count(threads.tids, static_cast<int64_t>(*holder)) > 0;
    Field field = {
        .name = spans(fmt::format("thread{} {} ({}), {}{}{}", threads.tids.size() == 1 ? "" : "s",
                                  ranges_text(threads.tids), text_at(*threads.first, "comm"),
                                  thread_doing(*threads.first), blocked_text(threads),
                                  holds ? ", holds the GIL" : ""))};
    field.blocks.add(std::move(frames));
    blocks.add(std::move(field));
  }
  if (left_out > 0) blocks.say(counted(left_out, "thread") + " without such frames");
}

std::string title_of_stacks(const Json& process) {
  const std::string role = text_at(process, "role");
  return fmt::format("{} {}", role.empty() || role == "other" ? "process" : role,
                     integer_at(process, "pid"));
}

Card card_of_process(const Json& process, const AlikeWaits& waits, bool is_whole) {
  const std::string name = title_of_stacks(process);
  const std::string python = text_at(process, "python");
  const std::string pause = pause_text(process);
  Card card = {.title = spans(strong(name),
                              "(" + text_at(process, "comm") + ")" +
                                  (python.empty() ? "" : ", Python " + python) +
                                  (pause.empty() ? ", not stopped" : ", stopped for " + pause)),
               .fold = Fold::kClosed};
  const std::string note = text_at(process, "python_note");
  if (!note.empty())
    card.blocks.add(Paragraph{.text = spans("no Python frames: " + note), .lead = "!"});
  add_threads(card.blocks, process, waits, is_whole);
  return card;
}

}  // namespace

Section stacks_of(const Json& document, bool is_whole) {
  Section section = {.id = "stacks",
                     .title = "Stacks at the last look, innermost frame first",
                     .is_titled_in_text = false};
  const Json& processes = items_at(document, "processes");
  const AlikeWaits waits(processes, items_at(document, "channel_ends"),
                         object_at(document, "wait_graph"));
  for (const auto& [first, others] : fold_stacks(processes, waits)) {
    section.blocks.add(card_of_process(*first, waits, is_whole));
    if (others.empty()) continue;
    const std::string name = title_of_stacks(*first);
    std::string roles = name.substr(0, name.rfind(' '));
    if (others.size() > 1) roles += roles == "process" ? "es" : "s";
    section.blocks.say(fmt::format("{} {}: same as {}", roles, ranges_text(others), name));
  }
  return section;
}

}  // namespace dlprobe::document
