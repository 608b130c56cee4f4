#include "lib/collect/deaths/death_watch.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <utility>

#include "lib/base/parse.h"
#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/collect/deaths/mapped_files.h"
#include "lib/foreign/libraries.h"
#include "lib/os/host_facts.h"
#include "lib/proc/kernel_log.h"
#include "lib/proc/pid_stat.h"

namespace dlprobe {
namespace {

constexpr BootNs kUnknownPatience = kSecond;  ///< a new process is found within two samples
constexpr size_t kMostUnclaimed = 512;
constexpr size_t kLongestCommand = 160;
constexpr int32_t kFromKernel = 128;  ///< SI_KERNEL

std::string fatal_signals_filter() {
  std::string filter;
  for (const int signal : kTracedSignals) {
    if (!filter.empty()) filter += "||";
    filter += "sig==" + std::to_string(signal);
  }
  return filter;
}

template <class T>
std::optional<T> field_of(const TracepointFormat& format, const TracepointRecord& record,
                          std::string_view name) {
  const TracepointField* field = format.find(name);
  if (field == nullptr || field->size != sizeof(T)) return std::nullopt;
  if (field->offset + sizeof(T) > record.fields.size()) return std::nullopt;
  T value{};
  std::memcpy(&value, record.fields.data() + field->offset, sizeof(T));
  return value;
}

const TrackedProcess* member_of_pid(const ProcessTree& tree, int32_t pid) {
  const auto next = tree.members().lower_bound(ProcessKey{.pid = pid + 1, .start_ticks = 0});
  if (next == tree.members().begin()) return nullptr;
  const auto& [key, process] = *std::prev(next);
  return key.pid == pid ? &process : nullptr;
}

std::string short_command(std::string_view text) {
  std::vector<std::string> arguments;
  for (const std::string_view argument :
       split(text.substr(0, text.find_last_not_of('\0') + 1), '\0'))
    arguments.emplace_back(argument);
  std::string command;
  for (const std::string& argument : mask_secrets(arguments)) {
    if (!command.empty()) command += ' ';
    command += argument;
    if (command.size() > kLongestCommand) return command.substr(0, kLongestCommand) + "...";
  }
  return command;
}

/// A fault that the thread made by what it did, not a signal that somebody sent. Of an address that
/// no memory can have, or of a stack without room for a handler, the kernel does not say more.
bool is_own_fault(const SignalSent& signal) {
  return signal.code > 0 && (signal.code != kFromKernel || signal.signal == SIGSEGV);
}

bool has_ended(const Directory& root, int32_t pid, int32_t thread) {
  const std::string folder = "proc/" + std::to_string(pid) + "/task/" + std::to_string(thread);
  const auto stat = chain(root.read(folder + "/stat"), parse_pid_stat);
  constexpr uint64_t kExiting = 0x4;  // PF_EXITING
  return !stat || (stat->flags & kExiting) != 0;
}

/// Of the main thread, whose stack ends where it has begun.
std::optional<uint64_t> used_of_stack(const AddressSpace& space, uint64_t stack_pointer) {
  const auto stack = std::ranges::find(space.mappings(), "[stack]", &Mapping::path);
  if (stack == space.mappings().end() || stack_pointer >= stack->end) return std::nullopt;
  return stack->end - stack_pointer;
}

/// Whose memory it has a copy of; null: nobody's, or it is not known.
const TrackedProcess* forked_from(const ProcessTree& tree, const TrackedProcess& process) {
  const auto parent = process.facts.parent;
  if (!parent || process.facts.forked_without_exec != true) return nullptr;
  const auto member = tree.members().find(*parent);
  return member == tree.members().end() ? nullptr : &member->second;
}

// By raise(3).
bool is_raised_by_itself(const SignalSent& signal) {
  return signal.code == SI_TKILL && signal.signal == SIGTERM;
}

ProcessKey& subject_of(SignalSent& signal) {
  return signal.target;
}
ProcessKey& subject_of(KernelLogLine& line) {
  return line.process;
}

}  // namespace

Status check_pid_namespace(const Machine& machine) {
  if (is_in_first_pid_namespace(*machine.root)) return {};
  return failure(ErrorCode::kUnsupported,
                 "dlprobe runs in its own pid namespace, and the kernel reports the outer pids");
}

DeathWatch::DeathWatch(Machine machine, DeadlineReader& reader, RecordSink& sink)
    : machine_(std::move(machine)), reader_(&reader), sink_(&sink) {
  if (machine_.events == nullptr) return;
  if (const Status same = check_pid_namespace(machine_); !same) {
    note_missing("signals-not-traced", same.error());
    note_missing("kernel-log-not-read", same.error());
    return;
  }
  open_signals();
  open_log();
}

void DeathWatch::open_signals() {
  auto format =
      chain(machine_.events->tracepoint_format("signal/signal_generate"), parse_tracepoint_format);
  if (!format) return note_missing("signals-not-traced", format.error());
  format_ = std::move(*format);
  auto signals = machine_.events->open_tracepoint(format_.id, fatal_signals_filter());
  if (!signals) return note_missing("signals-not-traced", signals.error());
  signals_ = std::move(*signals);
}

void DeathWatch::open_log() {
  auto log = machine_.events->follow_log();
  if (!log) return note_missing("kernel-log-not-read", log.error());
  log_ = std::move(*log);
}

void DeathWatch::note_missing(const char* kind, const Error& error) {
  sink_->add(Event{.at = machine_.clock->now(), .kind = kind, .text = as_text(to_string(error))});
}

std::vector<int> DeathWatch::descriptors() const {
  return signals_ == nullptr ? std::vector<int>() : signals_->descriptors();
}

void DeathWatch::read(const ProcessTree& tree) {
  read_signals(tree);
  read_log();
  file(tree, pending_signals_);
  file(tree, pending_lines_);
}

void DeathWatch::read_signals(const ProcessTree& tree) {
  if (signals_ == nullptr) return;
  for (const TracepointRecord& record : signals_->take()) {
    const auto target = field_of<int32_t>(format_, record, "pid");
    if (!target || pending_signals_.size() >= kMostUnclaimed) continue;
    SignalSent signal = decode(record, *target);
    // What is sent to a thread of the own process carries the thread's number.
    const bool is_own = record.tid == *target;
    const int32_t pid = is_own ? record.pid : *target;
    if (!is_own) note_sender(tree, signal, record);
    if (const TrackedProcess* member = member_of_pid(tree, pid)) {
      signal.target = member->key;
      if (is_own) signal.sender = member->key;
      if (is_own && (is_own_fault(signal) || is_raised_by_itself(signal))) {
        signal.thread = record.tid;
        note_code(tree, signal, record.stack_pointer);
      }
    }
    pending_signals_.push_back({.pid = pid, .record = std::move(signal)});
  }
  if (const uint64_t lost = signals_->take_lost(); lost > 0) {
    note_missing("signals-not-traced",
                 {.code = ErrorCode::kInsufficient,
                  .context = counted(lost, "signal") + " came too fast to be recorded"});
  }
}

SignalSent DeathWatch::decode(const TracepointRecord& record, int32_t target_pid) const {
  SignalSent signal;
  signal.at = record.at;
  signal.signal = field_of<int32_t>(format_, record, "sig").value_or(0);
  signal.code = field_of<int32_t>(format_, record, "code").value_or(0);
  signal.sender_pid = record.pid;
  signal.by_dlprobe = record.pid == ::getpid();
  if (record.tid == target_pid && is_own_fault(signal)) signal.code_address = record.code_address;
  return signal;
}

void DeathWatch::note_sender(const ProcessTree& tree, SignalSent& signal,
                             const TracepointRecord& record) const {
  if (signal.sender_pid == 0) return;
  // kill, pidfd_send_signal and tgkill have the signal as their second or third argument.
  const bool called =
      std::ranges::count(record.arguments, static_cast<uint64_t>(signal.signal)) > 0;
  signal.by_ended = !called && record.tid != signal.sender_pid &&
                    has_ended(*machine_.root, signal.sender_pid, record.tid) &&
                    !has_ended(*machine_.root, signal.sender_pid, signal.sender_pid);
  const TrackedProcess* member = member_of_pid(tree, signal.sender_pid);
  if (member != nullptr) {
    signal.sender = member->key;
    signal.sender_comm = member->info.comm;
    return;
  }
  const std::string folder = "proc/" + std::to_string(signal.sender_pid);
  if (const auto comm = machine_.root->read(folder + "/comm")) signal.sender_comm = trim(*comm);
  const auto directory = machine_.root->open_directory(folder);
  const auto command = directory ? reader_->read(*directory, "cmdline") : Expected<std::string>("");
  if (command) signal.sender_command = short_command(*command);
}

/// Which file the faulting code is from. What dies of it may be gone already; a process that it was
/// forked from has the same files at the same addresses.
void DeathWatch::note_code(const ProcessTree& tree, SignalSent& signal,
                           std::optional<uint64_t> stack_pointer) const {
  const TrackedProcess* process = &tree.members().at(signal.target);
  const bool is_raised = is_raised_by_itself(signal);
  if (is_raised ? forked_from(tree, *process) == nullptr : !signal.code_address) return;
  for (; process != nullptr; process = forked_from(tree, *process)) {
    const std::shared_ptr<const Directory> directory = process->directory;
    const auto space = reader_->run<AddressSpace>(
        "read maps", [directory] { return AddressSpace::read(*directory); });
    if (!space || space->mappings().empty()) continue;
    if (is_raised) return note_library(*space, signal);
    const Mapping* mapping = space->find(*signal.code_address);
    if (mapping != nullptr && mapping->executable) signal.code_file = mapping->path;
    if (signal.signal == SIGSEGV && signal.thread == signal.target.pid && stack_pointer)
      signal.stack_used = used_of_stack(*space, *stack_pointer);
    if (signal.signal == SIGBUS) note_files(tree, *process, *space, signal);
    return;
  }
}

void DeathWatch::note_library(const AddressSpace& space, const SignalSent& signal) const {
  const auto library = std::ranges::find_if(
      space.mappings(), [](const Mapping& each) { return ends_forked_copies(each.path); });
  if (library == space.mappings().end()) return;
  sink_->add(Event{.at = signal.at,
                   .kind = "library-that-ends-forked-copies",
                   .text = as_path(library->path),
                   .process = signal.target});
}

void DeathWatch::note_files(const ProcessTree& tree, const TrackedProcess& process,
                            const AddressSpace& space, const SignalSent& signal) const {
  std::vector<std::shared_ptr<const Directory>> same_root;
  for (const TrackedProcess* each = &process; each != nullptr; each = forked_from(tree, *each))
    same_root.push_back(each->directory);
  auto events = reader_->run<std::vector<Event>>(
      "look at mapped files", [same_root, space] -> Expected<std::vector<Event>> {
        for (const auto& directory : same_root) {
          if (!directory->stat("root")) continue;
          const auto found = faulty_mapped_files(*directory, space);
          return found.empty() ? full_file_systems(*directory) : found;
        }
        return std::vector<Event>();
      });
  if (!events) return;
  for (Event& event : *events) {
    event.at = signal.at;
    event.process = signal.target;
    sink_->add(std::move(event));
  }
}

void DeathWatch::read_log() {
  if (log_ == nullptr) return;
  for (const std::string& record : log_->take()) {
    const auto message = parse_kmsg_record(record);
    if (!message) continue;
    if (const auto limit = parse_oom_limit(*message)) met_limit_ = limit;
    const auto entry = parse_kernel_message(*message);
    if (!entry || pending_lines_.size() >= kMostUnclaimed) continue;
    KernelLogLine line{.at = machine_.clock->now(),
                       .kind = entry->kind,
                       .text = *message,
                       .whole_host = entry->whole_host,
                       .limited_cgroup = entry->limited_cgroup,
                       .anonymous_bytes = entry->anonymous_bytes,
                       .file_bytes = entry->file_bytes,
                       .shmem_bytes = entry->shmem_bytes};
    if (entry->kind == KernelLogKind::kOomKill && entry->whole_host != true)
      line.limit_bytes = std::exchange(met_limit_, std::nullopt);
    pending_lines_.push_back({.pid = entry->pid, .record = std::move(line)});
  }
}

/// Records what is about a member; keeps the rest for a while.
template <class T>
void DeathWatch::file(const ProcessTree& tree, std::vector<Pending<T>>& pending) {
  if (pending.empty()) return;
  const BootNs now = machine_.clock->now();
  std::erase_if(pending, [&](Pending<T>& each) {
    ProcessKey& subject = subject_of(each.record);
    if (subject.pid == 0) {
      const TrackedProcess* member = member_of_pid(tree, each.pid);
      if (member == nullptr) return now - each.record.at > kUnknownPatience;
      subject = member->key;
    }
    sink_->add(std::move(each.record));
    return true;
  });
}

}  // namespace dlprobe
