#include "probes/deadlock/within.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <string_view>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"

namespace dlprobe::probes::deadlock {
namespace {

bool is_named(const StackFrame& frame, std::string_view method) {
  const std::string_view function = frame.function;
  return function == method || (function.ends_with(method) &&
                                function.substr(0, function.size() - method.size()).ends_with('.'));
}

bool has_frame(const ThreadSnapshot& thread, std::string_view file, std::string_view method) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return frame.python && is_of_standard_library(frame.file, file) && is_named(frame, method);
  });
}

// A task that concurrent.futures.ThreadPoolExecutor has given to it.
bool runs_task(const ThreadSnapshot& thread) {
  return has_frame(thread, "concurrent/futures/thread.py", "run");
}

// Who has nothing to do waits for an item of a queue.
bool waits_for_item(const ThreadFacts& thread) {
  const StackFrame* asker = python_frame(*thread.thread);
  return thread.need.kind == NeedKind::kNotification &&
         (has_frame(*thread.thread, "queue.py", "get") ||
          (asker != nullptr && is_of_standard_library(asker->file, "concurrent/futures/") &&
           is_named(*asker, "_worker")));
}

// Who could wake it because it is at work: in code of the user's, or a task of the executor whose
// result it waits for.
std::vector<size_t> who_works_for(const Facts& facts, const ThreadFacts& waiter) {
  std::vector<size_t> found;
  const bool of_executor = waits_for_future(*waiter.thread);
  for (const size_t each : waiter.need.providers) {
    const ThreadFacts& other = facts.threads[each];
    const bool works = of_executor ? runs_task(*other.thread)
                                   : user_frame(*other.thread) != nullptr && !waits_for_item(other);
    if (other.process == waiter.process && works) found.push_back(each);
  }
  return found;
}

std::optional<size_t> next_within(const Facts& facts, const ThreadFacts& waiter) {
  const Need& need = waiter.need;
  const bool has_holder = need.kind == NeedKind::kJoin || need.kind == NeedKind::kOwnedLock;
  if (!has_holder && need.kind != NeedKind::kNotification) return std::nullopt;
  const std::vector<size_t> next = has_holder ? need.providers : who_works_for(facts, waiter);
  if (next.empty()) return std::nullopt;
  const bool is_alike = std::ranges::all_of(next, [&](size_t each) {
    return same_user_frames(*facts.threads[each].thread, *facts.threads[next.front()].thread);
  });
  return is_alike ? std::optional(next.front()) : std::nullopt;
}

}  // namespace

const StackFrame* asker_within(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return frame.python && !is_of_standard_library(frame.file, "threading.py");
  });
  return found == thread.stack.end() ? nullptr : &*found;
}

QueueWait queue_wait(const ThreadSnapshot& thread) {
  const StackFrame* asker = asker_within(thread);
  if (asker == nullptr || !is_of_standard_library(asker->file, "queue.py")) return QueueWait::kNone;
  if (is_named(*asker, "put")) return QueueWait::kRoom;
  if (is_named(*asker, "join")) return QueueWait::kDone;
  return is_named(*asker, "get") ? QueueWait::kItem : QueueWait::kNone;
}

bool waits_for_future(const ThreadSnapshot& thread) {
  const StackFrame* asker = asker_within(thread);
  return asker != nullptr && is_of_standard_library(asker->file, "concurrent/futures/_base.py");
}

bool waits_for_import(const ThreadSnapshot& thread) {
  const StackFrame* frame = python_frame(thread);
  return frame != nullptr && is_of_standard_library(frame->file, "importlib/_bootstrap.py") &&
         is_named(*frame, "acquire");
}

bool is_importing(const ThreadSnapshot& thread) {
  return has_frame(thread, "importlib/_bootstrap.py", "_find_and_load_unlocked");
}

std::vector<size_t> way_within(const Facts& facts, size_t index) {
  std::vector<size_t> way = {index};
  while (const auto next = next_within(facts, facts.threads[way.back()])) {
    if (std::ranges::find(way, *next) != way.end()) break;
    way.push_back(*next);
  }
  return way;
}

std::vector<size_t> others_in_code(const Facts& facts, const std::vector<size_t>& way) {
  std::vector<size_t> others;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const bool is_of_process = thread.process == facts.threads[way.front()].process;
    if (is_of_process && std::ranges::count(way, i) == 0 && user_frame(*thread.thread) != nullptr)
      others.push_back(i);
  }
  return others;
}

Message words_of_wait(const Facts& facts, const ThreadFacts& thread) {
  const OwnWords name = name_of(facts, thread);
  if (thread.need.kind == NeedKind::kNothing) {
    return name + (thread.need.words.empty() ? " is at work" : " sleeps") + place_of(thread);
  }
  return name + " waits for " + thread.need.words + place_of(thread);
}

Message words_of_way(const Facts& facts, const std::vector<size_t>& way) {
  Message words;
  for (const size_t each : way | std::views::drop(1)) {
    words += "; " + words_of_wait(facts, facts.threads[each]);
  }
  return words;
}

Message words_of_others(const Facts& facts, const std::vector<size_t>& others) {
  constexpr size_t kMost = 2;
  Message words;
  for (const size_t each : others | std::views::take(kMost))
    words += "; " + words_of_wait(facts, facts.threads[each]);
  if (others.size() > kMost) words += "; " + counted(others.size() - kMost, "more thread");
  return words;
}

}  // namespace dlprobe::probes::deadlock
