#include "lib/proc/kernel_log.h"

#include <algorithm>
#include <array>

#include "lib/base/parse.h"
#include "lib/base/units.h"
#include "lib/proc/text.h"

namespace dlprobe {
namespace {

/// The digits at the start of `text` as a number.
template <class T>
std::optional<T> leading_number(std::string_view text) {
  return parse_int<T>(text.substr(0, text.find_first_not_of("0123456789")));
}

/// What stands behind the last `key`: a name in front of it is up to the process.
std::optional<std::string_view> behind(std::string_view text, std::string_view key) {
  const size_t at = text.rfind(key);
  if (at == std::string_view::npos) return std::nullopt;
  return text.substr(at + key.size());
}

std::optional<uint64_t> kib_behind(std::string_view text, std::string_view key) {
  const auto rest = behind(text, key);
  const auto kib = rest ? leading_number<uint64_t>(*rest) : std::nullopt;
  if (!kib || *kib > UINT64_MAX / kKiB) return std::nullopt;
  return *kib * kKiB;
}

// Example: "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,
// oom_memcg=/job,task_memcg=/job/w,task=python3,pid=1234,uid=0"; of the whole host
// "constraint=CONSTRAINT_NONE,...,global_oom,task_memcg=/,task=...".
std::optional<KernelLogEntry> parse_constraint(std::string_view message) {
  constexpr std::string_view kHead = "oom-kill:constraint=";
  if (!message.starts_with(kHead)) return std::nullopt;
  const auto pid = behind(message, ",pid=");
  KernelLogEntry entry{.kind = KernelLogKind::kOomKill};
  entry.pid = pid ? leading_number<int32_t>(*pid).value_or(0) : 0;
  message.remove_prefix(kHead.size());
  entry.whole_host = !message.starts_with("CONSTRAINT_MEMCG,");
  constexpr std::string_view kGroup = "oom_memcg=";
  if (const size_t at = message.find(kGroup); at != std::string_view::npos) {
    const std::string_view group = message.substr(at + kGroup.size());
    entry.limited_cgroup = group.substr(0, group.find(",task_memcg="));
  }
  return entry;
}

// Examples: "Memory cgroup out of memory: Killed process 1234 (python3) total-vm:3kB, anon-rss:2kB,
// file-rss:1kB, shmem-rss:0kB, UID:0 ..." (5.3+), "Out of memory: Killed process ...", "Tasks in
// /job are going to be killed due to memory.oom.group set" (no process), "Killed process 1234
// (python3) ..." (up to 5.2).
std::optional<KernelLogEntry> parse_killed(std::string_view message) {
  constexpr std::string_view kKilled = "Killed process ";
  const size_t at = message.find(kKilled);
  // Elsewhere than after these words it may be part of a name.
  const std::string_view head = message.substr(0, at);
  constexpr std::array<std::string_view, 4> kHeads = {
      "", "Memory cgroup out of memory: ", "Out of memory: ",
      "Out of memory (oom_kill_allocating_task): "};
  if (at == std::string_view::npos || std::ranges::count(kHeads, head) == 0) return std::nullopt;
  KernelLogEntry entry{.kind = KernelLogKind::kOomKill};
  entry.pid = leading_number<int32_t>(message.substr(at + kKilled.size())).value_or(0);
  if (!head.empty()) entry.whole_host = head.starts_with("Out");
  entry.anonymous_bytes = kib_behind(message, " anon-rss:");
  entry.file_bytes = kib_behind(message, " file-rss:");
  entry.shmem_bytes = kib_behind(message, " shmem-rss:");
  return entry;
}

// Examples: "python3[1234]: segfault at 0 ip 00007f sp 00007f error 4 in libfoo.so[7f+1000] likely
// on CPU 1 (core 1, socket 0)", "traps: python3[1234] trap divide error ip:7f sp:7f error:0 in
// libfoo.so[7f+1000]", "python3[1234]: unhandled level 2 translation fault (11) at 0x0, ..."
// (arm64).
std::optional<KernelLogEntry> parse_fault(std::string_view message) {
  constexpr std::array<std::string_view, 5> kWords = {
      "]: segfault at ", "] trap ", "] general protection ", "]: unhandled ", "]: bad frame "};
  for (const std::string_view word : kWords) {
    const size_t end = message.find(word);
    if (end == std::string_view::npos) continue;
    const size_t begin = message.substr(0, end).rfind('[');
    if (begin == std::string_view::npos) continue;
    const auto pid = parse_int<int32_t>(message.substr(begin + 1, end - begin - 1));
    if (pid) return KernelLogEntry{.kind = KernelLogKind::kFault, .pid = *pid};
  }
  return std::nullopt;
}

// Examples: "Memory failure: 0x1234: Sending SIGBUS to python3:1234 due to hardware memory
// corruption", "MCE: Killing python3:1234 due to hardware memory corruption fault at 7f".
std::optional<KernelLogEntry> parse_memory_error(std::string_view message) {
  const size_t end = message.rfind(" due to hardware memory corruption");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view head = message.substr(0, end);
  const size_t colon = head.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const auto pid = parse_int<int32_t>(head.substr(colon + 1));
  if (!pid) return std::nullopt;
  return KernelLogEntry{.kind = KernelLogKind::kMemoryError, .pid = *pid};
}

}  // namespace

Expected<std::string> parse_kmsg_record(std::string_view text) {
  const size_t begin = text.find(';');
  const auto priority = leading_number<uint32_t>(text);
  if (begin == std::string_view::npos || !priority) {
    return malformed("/dev/kmsg", "not a record", text);
  }
  return std::string(text.substr(begin + 1, text.find('\n', begin) - begin - 1));
}

std::optional<uint64_t> parse_oom_limit(std::string_view message) {
  if (!message.starts_with("memory: usage ")) return std::nullopt;
  return kib_behind(message, "kB, limit ");
}

std::optional<KernelLogEntry> parse_kernel_message(std::string_view message) {
  for (const auto parse : {parse_constraint, parse_killed, parse_memory_error, parse_fault}) {
    if (auto entry = parse(message)) return entry->pid > 0 ? entry : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace dlprobe
