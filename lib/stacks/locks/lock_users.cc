#include "lib/stacks/locks/lock_users.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "lib/foreign/python_code.h"
#include "lib/stacks/python/objects.h"

namespace dlprobe {
namespace {

constexpr uint64_t kPointerBytes = sizeof(uint64_t);

// Memory that was freed has a pointer, or nothing, where the count was.
bool is_alive(const Memory& memory, uint64_t object) {
  constexpr uint64_t kMostReferences = 1U << 20;
  const uint64_t count = memory.value<uint64_t>(object).value_or(0);
  return count > 0 && count < kMostReferences;
}

bool is_of_threading(const PythonFrame& frame, std::string_view method) {
  return is_of_standard_library(frame.file, "threading.py") &&
         (frame.function == method || frame.function == "Condition." + std::string(method));
}

// threading.Condition.wait gives the condition's lock back meanwhile. That of the library's own
// conditions (a queue's, an event's) is none of the user's.
bool waits_for_condition_of_user(const PythonThread& thread) {
  const auto& frames = thread.frames;
  if (frames.empty() || !is_of_threading(frames.front(), "wait")) return false;
  const size_t caller = frames.size() > 1 && is_of_threading(frames[1], "wait_for") ? 2 : 1;
  if (caller >= frames.size()) return false;
  constexpr std::array<std::string_view, 3> kOwn = {"threading.py", "queue.py",
                                                    "concurrent/futures/"};
  return std::ranges::none_of(kOwn, [&](std::string_view module) {
    return is_of_standard_library(frames[caller].file, module);
  });
}

// Such a condition may have given its lock back, or have taken it again.
bool waits_for_condition(const PythonThread& thread) {
  return std::ranges::any_of(
      thread.frames, [](const PythonFrame& frame) { return is_of_threading(frame, "wait"); });
}

bool is_exit_text(const Memory& memory, uint64_t address) {
  constexpr std::string_view kName("__exit__\0", 9);
  const auto text = memory.value<std::array<char, kName.size()>>(address);
  return text && std::string_view(text->data(), text->size()) == kName;
}

// What may be the first attribute of an object of a class of Python's: a Condition's _lock. The
// values lie in a dict, in an array before the object (3.11, 3.12), or in the object (3.13).
std::vector<uint64_t> first_attributes(const Memory& memory, const PythonLayout::Object& layout,
                                       uint64_t object) {
  const auto word = [&](uint64_t address) { return memory.value<uint64_t>(address).value_or(0); };
  std::vector<uint64_t> found = {word(object + 24), word(word(object - 32)),
                                 word(word(object - 24) + 1)};
  for (const uint64_t dict : {word(object + 16), word(object - 24)}) {
    if (python_type_name(memory, layout, dict).value_or("") != "dict") continue;
    const uint64_t keys = word(dict + 32);
    const uint64_t values = word(dict + 40);  // of a dict that shares its keys; its size is before
    if (values != 0) {
      found.insert(found.end(), {word(values), word(values + 8)});
      continue;
    }
    // Behind the head and an index of 8 or 16 bytes.
    constexpr std::array<uint64_t, 6> kFirst = {48, 56, 64, 72, 80, 88};
    for (const uint64_t offset : kFirst)
      found.push_back(word(keys + offset));
  }
  return found;
}

// Of a child that multiprocessing forked the frames outside of its start are its parent's: what
// these hold it holds only as a copy.
size_t own_frames(const PythonThread& thread) {
  const auto start = std::ranges::find_if(thread.frames, [](const PythonFrame& frame) {
    return is_of_multiprocessing(frame.file, "popen_fork.py");
  });
  const size_t all = thread.value_stacks.size();
  return start == thread.frames.end()
             ? all
             : std::min(all, static_cast<size_t>(start - thread.frames.begin()));
}

}  // namespace

LockUsers::LockUsers(const Memory& memory, const PythonLayout::Object& layout,
                     const std::map<int32_t, PythonThread>& threads, std::set<uint64_t> locks)
    : memory_(memory), layout_(layout), threads_(threads), locks_(std::move(locks)) {
  for (const auto& [tid, thread] : threads_) {
    if (locks_.empty()) break;
    find_joined(tid, thread);
    // Without the GIL the count of references is another.
    const bool has_gil = layout_.head_bytes == PythonLayout::Object{}.head_bytes;
    if (has_gil && !waits_for_condition_of_user(thread)) find_uses(tid, thread);
  }
}

std::optional<uint64_t> LockUsers::lock_of_exit(uint64_t object) const {
  // PyCFunctionObject: the definition, which begins with the name, and self.
  const auto words = memory_.value<std::array<uint64_t, 2>>(object + layout_.head_bytes);
  if (!words || !locks_.contains((*words)[1]) || !is_alive(memory_, object)) return std::nullopt;
  const auto type = python_type_name(memory_, layout_, object);
  if (!type || *type != "builtin_function_or_method") return std::nullopt;
  if (!is_exit_text(memory_, memory_.value<uint64_t>((*words)[0]).value_or(0))) return std::nullopt;
  return (*words)[1];
}

bool LockUsers::is_of_type(uint64_t object, std::string_view name) {
  constexpr size_t kMostTypes = 10'000;
  if (types_.size() >= kMostTypes) return false;
  const uint64_t type = memory_.value<uint64_t>(object + layout_.type).value_or(0);
  const auto [known, is_new] = types_.try_emplace(type);
  if (is_new) known->second = python_type_name(memory_, layout_, object).value_or("");
  return known->second == name;
}

std::optional<uint64_t> LockUsers::lock_of_condition_exit(uint64_t object) {
  if (!is_of_type(object, "method") || !is_alive(memory_, object)) return std::nullopt;
  // PyMethodObject: the function and self.
  const auto words = memory_.value<std::array<uint64_t, 2>>(object + layout_.head_bytes);
  if (!words || !is_of_type((*words)[1], "Condition")) return std::nullopt;
  // The name of a function, a str, is its third word from 3.10 on, and its seventh before; the
  // letters of a str lie behind 40 bytes from 3.12 on, and behind 48 before.
  const auto function = memory_.value<std::array<uint64_t, 7>>((*words)[0] + layout_.head_bytes);
  if (!function) return std::nullopt;
  const bool is_exit = std::ranges::any_of(
      std::array{(*function)[2], (*function)[6]},
      [&](auto at) { return is_exit_text(memory_, at + 40) || is_exit_text(memory_, at + 48); });
  if (!is_exit) return std::nullopt;
  for (const uint64_t word : first_attributes(memory_, layout_, (*words)[1]))
    if (locks_.contains(word)) return word;
  return std::nullopt;
}

void LockUsers::note_use(Use use, bool waits_for_condition) {
  const uint64_t word = use.object;
  if (word == 0 || word % kPointerBytes != 0) return;
  if (const auto lock = locks_.contains(word) ? std::optional(word) : lock_of_exit(word)) {
    use.is_between = false;
    uses_[*lock].push_back(use);
  } else if (waits_for_condition) {
    return;
  } else if (const auto of_condition = lock_of_condition_exit(word)) {
    uses_[*of_condition].push_back(use);
  }
}

void LockUsers::find_uses(int32_t tid, const PythonThread& thread) {
  const size_t frames = own_frames(thread);
  const bool waits = waits_for_condition(thread);
  for (size_t i = 0; i < frames; ++i) {
    const bool is_between = i > 0 && (is_of_threading(thread.frames[i - 1], "__enter__") ||
                                      is_of_threading(thread.frames[i - 1], "__exit__"));
    const AddressRange& values = thread.value_stacks[i];
    const size_t count = (values.end - values.begin) / kPointerBytes;
    if (count > values_left_) return;
    values_left_ -= count;
    std::vector<uint64_t> words(count);
    if (!memory_.read(values.begin, std::as_writable_bytes(std::span(words)))) continue;
    for (const uint64_t word : words)
      note_use({.tid = tid, .innermost = i == 0, .is_between = is_between, .object = word}, waits);
  }
}

void LockUsers::find_joined(int32_t tid, const PythonThread& thread) {
  constexpr size_t kWordsOfThread = 64;
  const auto words = memory_.value<std::array<uint64_t, kWordsOfThread>>(thread.tstate);
  if (!words) return;
  for (const uint64_t word : *words) {
    if (word == 0 || word % kPointerBytes != 0) continue;
    const auto object = memory_.value<uint64_t>(word + layout_.head_bytes);
    if (!object || !locks_.contains(*object)) continue;
    const auto type = python_type_name(memory_, layout_, word);
    if (type && type->starts_with("weakref")) joined_.emplace(*object, tid);
  }
}

std::optional<int32_t> LockUsers::holder_of(uint64_t lock, const std::set<int32_t>& waiters) const {
  const auto uses = uses_.find(lock);
  if (uses == uses_.end()) return std::nullopt;
  // Who waits has not entered its innermost `with`, and has the method on its stack up to 3.11,
  // later the lock. What lies behind it there is left from before.
  std::map<int32_t, uint64_t> pending;
  for (const Use& use : uses->second)
    if ((use.innermost || use.is_between) && waiters.contains(use.tid))
      pending.emplace(use.tid, use.object);
  std::set<int32_t> holders;
  for (const Use& use : uses->second) {
    const bool is_pending =
        std::ranges::any_of(pending, [&](const auto& each) { return each.second == use.object; });
    const bool is_entered = !use.is_between && (!use.innermost || !waiters.contains(use.tid));
    if (use.object != lock && is_entered && !is_pending) holders.insert(use.tid);
  }
  return holders.size() == 1 ? std::optional(*holders.begin()) : std::nullopt;
}

std::optional<int32_t> LockUsers::joined_by_lock(uint64_t lock) const {
  const auto found = joined_.find(lock);
  return found == joined_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<int32_t> LockUsers::joined_by_event(uint64_t event) const {
  constexpr size_t kWordsBefore = 8;
  const uint64_t end = event / kPointerBytes * kPointerBytes;
  const auto words =
      memory_.value<std::array<uint64_t, kWordsBefore>>(end - kWordsBefore * kPointerBytes);
  if (!words) return std::nullopt;
  const auto found = std::ranges::find_if(threads_, [&](const auto& each) {
    const std::array<uint64_t, 2> twice = {each.second.pthread_id, each.second.pthread_id};
    return twice[0] != 0 && !std::ranges::search(*words, twice).empty();
  });
  return found == threads_.end() ? std::nullopt : std::optional(found->first);
}

}  // namespace dlprobe
