#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "lib/base/units.h"
#include "reports/alike_waits.h"
#include "reports/frame_text.h"
#include "reports/stacks.h"
#include "reports/text_layout.h"
#include "reports/text_limitations.h"

namespace dlprobe {
namespace {

// Threads of one process that stand in the same frames.
struct ThreadGroup {
  const Json* first = nullptr;
  std::vector<int64_t> tids;
  std::optional<double> blocked_for_s;  ///< of the one that has blocked last; nothing: one runs
};

// Processes whose threads are alike.
struct ProcessGroup {
  const Json* first = nullptr;
  std::vector<ThreadGroup> threads;
  std::vector<int64_t> others;  ///< pids
};

std::string thread_key(const Json& thread) {
  std::string key = fmt::format("{}|{}|{}", text_at(thread, "comm"), text_at(thread, "state"),
                                without_numbers(text_at(thread, "stack_note")));
  for (const Json& frame : items_at(thread, "stack"))
    key += '\n' + frame_text(frame, true);
  return key;
}

std::vector<ThreadGroup> group_threads(const Json& process, const AlikeWaits& waits,
                                       std::string& process_key) {
  std::vector<ThreadGroup> groups;
  std::map<std::string, size_t> places;
  for (const Json& thread : items_at(process, "threads")) {
    const std::string key = thread_key(thread);
    const auto [place, is_new] =
        places.try_emplace(waits.key_in_process(thread) + '|' + key, groups.size());
    const auto blocked_for = number_at(thread, "blocked_for_s");
    if (is_new) groups.push_back({.first = &thread, .tids = {}, .blocked_for_s = blocked_for});
    ThreadGroup& group = groups[place->second];
    group.tids.push_back(integer_at(thread, "tid"));
    group.blocked_for_s = std::min(group.blocked_for_s, blocked_for);
    process_key += '\n' + waits.key_among_processes(process, thread) + '|' + key;
  }
  return groups;
}

std::vector<ProcessGroup> group_processes(const Json& stacks) {
  const Json& processes = items_at(stacks, "processes");
  const AlikeWaits waits(processes, items_at(stacks, "channel_ends"), Json());
  std::vector<ProcessGroup> all;
  std::vector<AlikeProcess> keys;
  for (const Json& process : processes) {
    std::string key = fmt::format("{}|{}|{}", text_at(process, "role"), text_at(process, "python"),
                                  without_numbers(text_at(process, "python_note")));
    all.push_back({.first = &process, .threads = group_threads(process, waits, key), .others = {}});
    keys.push_back({.pid = integer_at(process, "pid"), .key = std::move(key)});
  }
  std::vector<ProcessGroup> groups;
  for (const FoldedProcesses& folded : waits.fold(keys)) {
    groups.push_back(std::move(all[folded.first]));
    groups.back().others = folded.others;
  }
  std::ranges::stable_sort(groups, {}, [](const ProcessGroup& group) {
    return role_rank(text_at(*group.first, "role"));
  });
  return groups;
}

// "for 2 h", where it is long enough to mean something: of threads that stand alike the shortest.
std::string since_text(const ThreadGroup& group) {
  constexpr double kWorthAWord = 1;
  const auto shortest = group.blocked_for_s.value_or(0);
  if (shortest < kWorthAWord) return "";
  const auto span = std::chrono::nanoseconds(static_cast<int64_t>(shortest * 1e9));
  return (group.tids.size() > 1 ? ", for at least " : ", for ") + format_duration(span);
}

std::string doing_text(const Json& thread) {
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
size_t write_nameless(TextPage& page, const Json& stack, size_t from) {
  std::string text = frame_text(stack[from]);
  size_t next = from + 1;
  for (; next < stack.size() && is_nameless(stack[next]) &&
         text_at(stack[next], "file") == text_at(stack[from], "file");
       ++next) {
    text.pop_back();
    text += fmt::format(", +{:#x})", integer_at(stack[next], "offset"));
  }
  page.paragraph("    . ", text);
  return next;
}

void write_frames(TextPage& page, const Json& thread) {
  const bool whole = page.options().verbosity > 0;
  const Json& stack = items_at(thread, "stack");
  for (size_t i = 0; i < stack.size();) {
    if (!whole && is_nameless(stack[i])) {
      i = write_nameless(page, stack, i);
      continue;
    }
    const std::string text = frame_text(stack[i], whole);
    page.paragraph(text_at(stack[i], "kind") == "python" ? "      " : "    . ",
                   text.empty() ? "??" : text);
    ++i;
  }
  const std::string note = text_at(thread, "stack_note");
  if (!note.empty()) page.paragraph("      ! ", note);
}

// Under --python a thread of a native pool has nothing to show.
bool is_empty(const Json& thread) {
  return items_at(thread, "stack").empty() && text_at(thread, "stack_note").empty();
}

void write_threads(TextPage& page, const ProcessGroup& group) {
  const auto holder = number_at(*group.first, "gil_holder");
  size_t left_out = 0;
  for (const ThreadGroup& threads : group.threads) {
    if (is_empty(*threads.first)) {
      left_out += threads.tids.size();
      continue;
    }
    const bool is_one = threads.tids.size() == 1;
    const bool holds =
        holder && std::ranges::count(threads.tids, static_cast<int64_t>(*holder)) > 0;
    page.paragraph(
        "  ", fmt::format("thread{} {} ({}), {}{}{}", is_one ? "" : "s", ranges_text(threads.tids),
                          text_at(*threads.first, "comm"), doing_text(*threads.first),
                          since_text(threads), holds ? ", holds the GIL" : ""));
    write_frames(page, *threads.first);
  }
  if (left_out > 0) {
    page.paragraph("  ", counted(left_out, "thread") + " without such frames");
  }
}

std::string name_of(const Json& process) {
  const std::string role = text_at(process, "role");
  return fmt::format("{} {}", role.empty() || role == "other" ? "process" : role,
                     integer_at(process, "pid"));
}

void write_process(TextPage& page, const ProcessGroup& group) {
  const Json& process = *group.first;
  std::string text = "(" + text_at(process, "comm") + ")";
  const std::string python = text_at(process, "python");
  if (!python.empty()) text += ", Python " + python;
  const std::string pause = pause_text(process);
  text += pause.empty() ? ", not stopped" : ", stopped for " + pause;
  page.paragraph(name_of(process) + " ", text, Style::kBold);
  const std::string note = text_at(process, "python_note");
  if (!note.empty()) page.paragraph("  ! ", "no Python frames: " + note);
  write_threads(page, group);
  if (group.others.empty()) return;
  const std::string name = name_of(process);
  std::string roles = name.substr(0, name.rfind(' '));
  if (group.others.size() > 1) roles += roles == "process" ? "es" : "s";
  page.paragraph("", fmt::format("{} {}: same as {}", roles, ranges_text(group.others), name));
}

}  // namespace

std::string render_stacks(const Json& stacks, const TextOptions& options) {
  TextPage page(options);
  bool is_first = true;
  for (const ProcessGroup& group : group_processes(stacks)) {
    if (!is_first) page.blank_line();
    is_first = false;
    write_process(page, group);
  }
  write_limitations(page, stacks);
  return std::move(page).take();
}

}  // namespace dlprobe
