#include "probes/deadlock/within.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ranges>
#include <string_view>

#include "lib/base/units.h"
#include "lib/foreign/python_code.h"
#include "probes/deadlock/ranks.h"

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

bool is_of_pool(const ThreadSnapshot& thread, std::string_view method) {
  return std::ranges::any_of(thread.stack, [&](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "pool.py") && is_named(frame, method);
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

// Those of other processes that could end its wait, but for who waits for tasks or new clients.
std::vector<size_t> who_could_across(const Facts& facts, const ThreadFacts& waiter) {
  std::vector<size_t> found;
  const bool is_shared = waiter.need.kind == NeedKind::kSharedCount;
  if (!is_shared && waiter.need.kind != NeedKind::kChannel && waiter.need.kind != NeedKind::kChild)
    return found;
  for (const size_t each : waiter.need.providers) {
    const ThreadFacts& other = facts.threads[each];
    if (serves_a_manager(*other.thread)) return {};
    const bool is_parked = other.need.kind == NeedKind::kNewClient ||
                           waits_for_task(facts, other) || waits_for_room(other);
    // Of those who share a semaphore another worker that sleeps or works may release it.
    const bool may_release = !is_shared || (other.is_main() && other.role() == Role::kWorker &&
                                            other.need.kind == NeedKind::kNothing);
    if (other.process != waiter.process && !is_parked && may_release) found.push_back(each);
  }
  return found;
}

// As far as its waits tell: it ran between two looks, and more than to ask again for the same.
bool is_at_work(const ThreadFacts& thread) {
  return !thread.still && (!thread.waits_again || polls_by_sleep(thread));
}

// Who is at work, else who waits at the other side of the same connection, else a main thread: one
// that sleeps now and then, and last that of a shell, which waits for the program that it started.
std::optional<size_t> next_across(const Facts& facts, const ThreadFacts& waiter) {
  const std::vector<size_t> found = who_could_across(facts, waiter);
  const auto likely = [&](size_t each) {
    const ThreadFacts& other = facts.threads[each];
    if (is_at_work(other) && !polls_by_sleep(other)) return 5;
    if (are_of_one_connection(waiter, other)) return 4;
    if (!other.is_main()) return is_at_work(other) ? 1 : 0;
    if (other.need.kind == NeedKind::kChild) return 1;
    return is_at_work(other) ? 3 : 2;
  };
  const auto next = std::ranges::max_element(found, {}, likely);
  return next == found.end() || likely(*next) == 0 ? std::nullopt : std::optional(*next);
}

}  // namespace

const StackFrame* asker_within(const ThreadSnapshot& thread) {
  const auto found = std::ranges::find_if(thread.stack, [](const StackFrame& frame) {
    return frame.python && !is_of_standard_library(frame.file, "threading.py");
  });
  return found == thread.stack.end() ? nullptr : &*found;
}

bool waits_for_permit(const ThreadSnapshot& thread) {
  return has_frame(thread, "threading.py", "acquire") && has_frame(thread, "threading.py", "wait");
}

bool waits_at_barrier(const ThreadSnapshot& thread) {
  return has_frame(thread, "threading.py", "_wait");
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

bool waits_for_pool(const ThreadSnapshot& thread) {
  const StackFrame* asker = asker_within(thread);
  return asker != nullptr && is_of_multiprocessing(asker->file, "pool.py") &&
         (asker->function.ends_with("wait") || asker->function.ends_with("next"));
}

bool hands_on_results(const ThreadSnapshot& thread) {
  return is_of_pool(thread, "_handle_results");
}

bool hands_on_tasks(const ThreadSnapshot& thread) {
  return is_of_pool(thread, "_handle_tasks");
}

bool feeds_queue(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "queues.py") &&
           frame.function.ends_with("_feed");
  });
}

bool had_other_threads(const Facts& facts, const ProcessKey& forked) {
  const ProcessSnapshot* parent = parent_of(facts, forked);
  const auto was_there = [&](const ThreadSnapshot& thread) {
    return python_frame(thread) != nullptr && !feeds_queue(thread) &&
           thread.start_ticks <= forked.start_ticks;
  };
  return parent != nullptr && std::ranges::count_if(parent->threads, was_there) > 1;
}

bool manages_an_executor(const ThreadSnapshot& thread) {
  return has_frame(thread, "concurrent/futures/process.py", "wait_result_broken_or_wakeup");
}

bool waits_for_import(const ThreadSnapshot& thread) {
  const StackFrame* frame = python_frame(thread);
  return frame != nullptr && is_of_standard_library(frame->file, "importlib/_bootstrap.py") &&
         is_named(*frame, "acquire");
}

bool is_in_finalizer(const ThreadSnapshot& thread) {
  return has_frame(thread, "weakref.py", "__call__") ||
         std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
           return frame.python && is_named(frame, "__del__");
         });
}

bool is_importing(const ThreadSnapshot& thread) {
  return has_frame(thread, "importlib/_bootstrap.py", "_find_and_load_unlocked");
}

bool is_at_end_of_program(const ThreadSnapshot& thread) {
  return has_frame(thread, "threading.py", "_shutdown");
}

bool ends_its_children(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return frame.python && is_of_multiprocessing(frame.file, "util.py") &&
           is_named(frame, "_exit_function");
  });
}

bool is_finalizing(const ThreadSnapshot& thread) {
  return std::ranges::any_of(thread.stack, [](const StackFrame& frame) {
    return !frame.python && frame.function == "Py_FinalizeEx";
  });
}

Remedy remedy_at_end_of_program() {
  return {.title = "Tell that thread to end before the program does, or let it end with it",
          .commands = {"stop.set(); thread.join()", "threading.Thread(..., daemon=True)"},
          .verify = "dlprobe deadlock --pid PID"};
}

bool are_of_one_connection(const ThreadFacts& one, const ThreadFacts& other) {
  return std::ranges::any_of(one.thread->wait.files, [&](const WaitedFile& file) {
    return file.kind == FileKind::kSocket && file.peer != 0 &&
           std::ranges::count(other.thread->wait.files, file.peer, &WaitedFile::inode) > 0;
  });
}

std::vector<size_t> way_within(const Facts& facts, size_t index) {
  std::vector<size_t> way = {index};
  while (const auto next = next_within(facts, facts.threads[way.back()])) {
    if (std::ranges::find(way, *next) != way.end()) break;
    way.push_back(*next);
  }
  return way;
}

std::vector<size_t> way_through(const Facts& facts, size_t index) {
  std::vector<size_t> way = way_within(facts, index);
  while (const auto next = next_across(facts, facts.threads[way.back()])) {
    for (const size_t each : way_within(facts, *next)) {
      if (std::ranges::count(way, each) > 0) return way;
      way.push_back(each);
    }
    if (is_at_work(facts.threads[way.back()])) break;
  }
  return way;
}

bool ends_at_work(const Facts& facts, const std::vector<size_t>& way) {
  const ThreadFacts& end = facts.threads[way.back()];
  return end.process != facts.threads[way.front()].process && is_at_work(end);
}

std::vector<size_t> others_in_code(const Facts& facts, const std::vector<size_t>& way) {
  std::vector<size_t> others;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& thread = facts.threads[i];
    const bool may_help = thread.process == facts.threads[way.front()].process &&
                          !std::ranges::binary_search(facts.bystanders, i);
    if (may_help && std::ranges::count(way, i) == 0 && user_frame(*thread.thread) != nullptr)
      others.push_back(i);
  }
  return others;
}

Message words_of_wait(const Facts& facts, const ThreadFacts& thread) {
  // The trainer and the workers are known by what they are.
  const bool is_program =
      thread.role() == Role::kOther && thread.info != nullptr && !thread.info->comm.empty();
  const Message who =
      name_of(facts, thread) + (is_program ? " (" + as_name(thread.info->comm) + ")" : "");
  if (thread.need.kind != NeedKind::kNothing)
    return who + " waits for " + thread.need.words + place_of(thread);
  const char* deed = thread.woke ? " sleeps, and runs now and then" : " sleeps";
  const bool works = thread.need.words.empty() || (thread.woke && !thread.waits_again);
  return who + (works ? " is at work" : deed) + place_of(thread);
}

Message words_of_way(const Facts& facts, const std::vector<size_t>& way) {
  Message words;
  for (const size_t each : way | std::views::drop(1)) {
    words += "; " + words_of_wait(facts, facts.threads[each]);
  }
  return words;
}

Message words_of_server(const Facts& facts, const ThreadFacts& waiter) {
  const Need& need = waiter.need;
  if (need.kind != NeedKind::kChannel || need.providers.size() != 1) return {};
  const ThreadFacts& server = facts.threads[need.providers.front()];
  const bool is_alone = server.process->threads.size() == 1 && server.process != waiter.process;
  if (!is_alone || server.role() != Role::kOther) return {};
  return "; " + words_of_wait(facts, server);
}

Message words_of_others(const Facts& facts, const std::vector<size_t>& others) {
  constexpr size_t kMost = 2;
  Message words;
  for (const size_t each : others | std::views::take(kMost))
    words += "; " + words_of_wait(facts, facts.threads[each]);
  if (others.size() > kMost) words += "; " + counted(others.size() - kMost, "more thread");
  return words;
}

Message words_of_end(const Facts& facts, const std::vector<size_t>& way) {
  if (way.size() < 2 || !is_at_end_of_program(*facts.threads[way.front()].thread)) return "";
  return ": it is through, and " + name_of(facts, facts.threads[way[1]]) + " keeps it alive";
}

namespace {

// Who could end that wait, and, of a fork server, whose end it is to report: its children.
std::vector<size_t> providers_of(const Facts& facts, const ThreadFacts& waiter) {
  std::vector<size_t> found = waiter.need.providers;
  if (waiter.role() != Role::kForkserver) return found;
  for (size_t i = 0; i < facts.threads.size(); ++i) {
    const ThreadFacts& each = facts.threads[i];
    if (each.is_main() && each.info != nullptr && each.info->ppid == waiter.process->key.pid)
      found.push_back(i);
  }
  return found;
}

// The threads that `trainer` waits for, through one another, the nearest first. Each with who waits
// for it.
std::vector<std::pair<size_t, size_t>> waited_for(const Facts& facts, size_t trainer) {
  std::vector<std::pair<size_t, size_t>> found = {{trainer, trainer}};
  for (size_t i = 0; i < found.size(); ++i) {
    const size_t waiter = found[i].first;
    for (const size_t next : providers_of(facts, facts.threads[waiter]))
      if (std::ranges::count(found, next, &std::pair<size_t, size_t>::first) == 0)
        found.emplace_back(next, waiter);
  }
  return found;
}

// How likely a wait ends in that thread, by what it waits for and whether that is in the user's
// code; 0: not at all.
int ends_there(const Facts& facts, const ThreadFacts& thread) {
  if (!thread.still || waits_for_task(facts, thread)) return 0;
  const bool is_users = user_frame(*thread.thread) != nullptr;
  switch (thread.need.kind) {
    case NeedKind::kLock:
    case NeedKind::kOwnedLock:
    case NeedKind::kSharedLock:
    case NeedKind::kSharedCount:
    case NeedKind::kFileLock:
      return is_users ? 3 : 1;
    case NeedKind::kNothing:
      return is_users ? 2 : 0;
    case NeedKind::kChannel:
      return is_users ? 1 : 0;
    default:
      return 0;
  }
}

}  // namespace

std::vector<size_t> way_to_the_end(const Facts& facts, size_t trainer) {
  const auto reached = waited_for(facts, trainer);
  const auto holds_up = [&](const std::pair<size_t, size_t>& each) {
    return ends_there(facts, facts.threads[each.first]);
  };
  const auto end = std::ranges::max_element(reached, {}, holds_up);
  if (holds_up(*end) == 0) return {trainer};
  std::vector<size_t> way;
  for (auto at = end;;
       at = std::ranges::find(reached, at->second, &std::pair<size_t, size_t>::first)) {
    way.push_back(at->first);
    if (at->first == trainer) break;
  }
  std::ranges::reverse(way);
  return way;
}

}  // namespace dlprobe::probes::deadlock
