// Faults that a process made itself.

#include <algorithm>
#include <charconv>
#include <csignal>
#include <utility>

#include "lib/base/path_name.h"
#include "lib/base/units.h"
#include "probes/exits/rules.h"
#include "probes/facts/facts.h"
#include "probes/facts/starts.h"

namespace dlprobe::probes::exits {
namespace {

constexpr int kHardwareAction = 4;    // BUS_MCEERR_AR
constexpr int kHardwareOptional = 5;  // BUS_MCEERR_AO
constexpr int kAddressError = 2;      // BUS_ADRERR

/// Memory without a file: of code that was made at run time.
bool is_no_library(std::string_view path) {
  return path.contains("dev/zero") || path.contains("memfd:") || path.starts_with('[');
}

/// " in libfoo.so": what the kernel's log or the address of the code tells.
Message place_of(const Death& death) {
  if (death.sent != nullptr && !death.sent->code_file.empty() &&
      !is_no_library(death.sent->code_file)) {
    return " in code of " + as_path(base_name(death.sent->code_file));
  }
  for (const KernelLogLine* line : death.log) {
    constexpr std::string_view kIn = " in ";
    const size_t at = line->text.rfind(kIn);
    if (line->kind != KernelLogKind::kFault || at == std::string::npos) continue;
    const std::string_view rest = std::string_view(line->text).substr(at + kIn.size());
    const std::string file(rest.substr(0, rest.find('[')));
    if (!is_no_library(file)) return " in code of " + as_path(file);
  }
  return "";
}

// The number after `name` in a line of the kernel's log, in hexadecimal.
std::optional<uint64_t> hex_after(std::string_view line, std::string_view name) {
  const size_t at = line.find(name);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view digits = line.substr(at + name.size());
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return error == std::errc{} ? std::optional(value) : std::nullopt;
}

// A fault right at the stack pointer: "segfault at 7ffc7bf66f60 ip ... sp 7ffc7bf66f40 error 6"
// (show_signal_msg in arch/x86/mm/fault.c).
bool overflowed_stack(const Death& death) {
  constexpr uint64_t kNear = 16384;  // a frame's worth
  constexpr uint64_t kLowPages = 1 << 16;
  return std::ranges::any_of(death.log, [](const KernelLogLine* line) {
    const auto fault = hex_after(line->text, "segfault at ");
    const auto stack = hex_after(line->text, " sp ");
    if (!fault || !stack || *fault < kLowPages) return false;
    return std::max(*fault, *stack) - std::min(*fault, *stack) <= kNear;
  });
}

/// Whether it is what the process had at /dev/shm: it may have another one mounted.
bool is_shm_of(const ExitFacts& facts, const Death& death, const ShmUse& use) {
  const ShmMount* its_own = nullptr;
  for (const ShmMount& mount : facts.run->mounts) {
    if (death.process->mount_namespace == mount.mount_namespace) its_own = &mount;
  }
  return its_own != nullptr && its_own->device == use.device;
}

/// What there was left of /dev/shm: a full one is the other reason for SIGBUS.
void add_room_in_shm(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  const std::vector<ShmUse>& uses = facts.run->shm_use;
  const auto after = std::ranges::upper_bound(uses, death.at(), {}, &ShmUse::at);
  if (after == uses.begin()) return;
  const ShmUse& use = *std::prev(after);
  if (use.size_bytes <= use.used_bytes || !is_shm_of(facts, death, use)) return;
  const uint64_t room = use.size_bytes - use.used_bytes;
  cause.prove(bytes_fact("shm_free", room, "statvfs /dev/shm", use.at));
  cause.rule_out("DLP0102", format_bytes(room) + " of " + format_bytes(use.size_bytes) +
                                " were free in /dev/shm shortly before");
}

std::vector<Message> open_in_worker(bool has_loader) {
  if (has_loader)
    return {"DataLoader(..., worker_init_fn=<open it here>)",
            "DataLoader(..., multiprocessing_context='spawn')"};
  return {"multiprocessing.Pool(..., initializer=<open it here>)",
          "multiprocessing.get_context('spawn')"};
}

void add_remedies_for_crash(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  const bool is_worker = death.process->role == Role::kWorker;
  Remedy look{.title = say("See which Python line crashed: run it with faulthandler{}",
                           is_worker ? " and at most one worker" : ""),
              .commands = {"PYTHONFAULTHANDLER=1 python train.py"},
              .verify = "dlprobe run -- COMMAND"};
  if (!is_worker && death.process->rank_of_several() != nullptr && death.signal == SIGABRT) {
    look.title +=
        "; let torch compare what the ranks call, for Gloo calls abort() where a tensor "
        "of another rank has another size";
    look.commands = {"PYTHONFAULTHANDLER=1 TORCH_DISTRIBUTED_DEBUG=DETAIL python train.py"};
  }
  cause.remedies.push_back(std::move(look));
  if (!is_worker) return;
  const bool has_loader = has_data_loader(*facts.run);
  if (has_loader) cause.remedies.back().commands.emplace_back("DataLoader(..., num_workers=0)");
  cause.remedies.push_back(
      {.title = "If it crashes only in workers: open files, databases (lmdb), MPI and GPU contexts "
                "in the worker, not before the fork, or start workers by spawn",
       .commands = open_in_worker(has_loader),
       .verify = "dlprobe run -- COMMAND",
       .settings = {{SettingKind::kStartMethod, "", "spawn"}}});
}

}  // namespace

ExitCause crash_cause(const ExitFacts& facts, const Death& death) {
  ExitCause cause;
  cause.code = FindingCode::kWorkerCrashed;
  const Message place = place_of(death);
  const bool is_overflow = overflowed_stack(death);
  cause.clause =
      (is_overflow ? "overflowed its stack: " : "crashed: ") + signal_name(death.signal) + place;
  cause.discriminator = signal_name(death.signal);
  cause.together = "crash" + cause.discriminator;
  cause.evidence = signal_evidence(facts, death);
  if (death.sent != nullptr && !death.sent->code_file.empty()) {
    cause.prove(text_fact("code", as_path(death.sent->code_file),
                          "user registers at the tracepoint, /proc/PID/maps"));
  }
  for (const KernelLogLine* line : death.log) {
    cause.prove(text_fact("kernel_log", as_text(line->text), "/dev/kmsg", line->at));
  }
  if (death.sent != nullptr) {
    cause.rule_out("killed by another process (DLP0503)",
                   is_own_fault(*death.sent)
                       ? "the kernel raised the signal because of its own code"
                       : "it sent the signal to itself, as abort() does");
  } else {
    cause.confidence = Confidence::kLikely;
  }
  if (is_overflow) {
    cause.remedies.push_back(
        {.title = "Find the endless recursion, or allow more stack",
         .commands = {"PYTHONFAULTHANDLER=1 python train.py", "ulimit -s 65536",
                      "threading.stack_size(512 << 20)  # of the thread that recurses"},
         .verify = "dlprobe run -- COMMAND"});
    return cause;
  }
  const auto word = word_of(*facts.run, death.process->key);
  if (word && word->remedy && word->kind == kCallOfAbort) {
    cause.clause += word->clause;
    std::ranges::copy(word->evidence, std::back_inserter(cause.evidence));
    cause.remedies.push_back(*word->remedy);
    return cause;
  }
  add_remedies_for_crash(facts, death, cause);
  return cause;
}

namespace {

// Of the files that the process had mapped those that were found so when it met the fault.
std::vector<const Event*> mapped_files(const ExitFacts& facts, const Death& death,
                                       std::string_view kind) {
  std::vector<const Event*> found;
  for (const Event& event : facts.run->events) {
    if (event.kind == kind && event.process == death.process->key) found.push_back(&event);
  }
  return found;
}

Remedy reserve_space() {
  return {.title =
              "Make room there, and reserve the file's space before it is mapped: where there "
              "is none, that raises an exception",
          .commands = {"os.posix_fallocate(file.fileno(), 0, size)"},
          .verify = "dlprobe run -- COMMAND"};
}

// Which of them it was is certain only where there is one.
void add_mapped_files(const ExitFacts& facts, const Death& death, ExitCause& cause) {
  constexpr const char* kSource = "/proc/PID/maps, stat and statfs of the files, at the signal";
  const auto full = mapped_files(facts, death, "mapped-file-without-room");
  const auto cut = mapped_files(facts, death, "mapped-file-cut-short");
  for (const Event* event : full)
    cause.prove(text_fact("without_room", event->text, kSource, event->at));
  for (const Event* event : cut)
    cause.prove(text_fact("cut_short", event->text, kSource, event->at));
  if (!full.empty() && cut.empty()) {
    cause.clause = "was killed by SIGBUS: it wrote to a page of a mapped file that had no room; " +
                   full.front()->text;
    cause.discriminator = "no-room";
    cause.remedies.push_back(reserve_space());
  } else if (cut.size() == 1 && full.empty()) {
    cause.clause =
        "was killed by SIGBUS: it touched a page of a mapped file that does not exist; " +
        cut.front()->text;
  }
}

}  // namespace

ExitCause bus_error_cause(const ExitFacts& facts, const Death& death) {
  const bool logged = std::ranges::any_of(death.log, [](const KernelLogLine* line) {
    return line->kind == KernelLogKind::kMemoryError;
  });
  const int code = death.sent == nullptr ? 0 : death.sent->code;
  if (logged || code == kHardwareAction || code == kHardwareOptional) {
    ExitCause cause = crash_cause(facts, death);
    cause.clause = "was killed by SIGBUS: a memory error of the hardware";
    cause.discriminator = "memory-error";
    cause.confidence = Confidence::kCertain;
    cause.remedies = {{.title = "Run no jobs on this machine until its memory is tested",
                       .commands = {"ras-mc-ctl --error-count", "dmesg | grep -i 'memory failure'"},
                       .applies_to = {"bare-host"}}};
    return cause;
  }
  if (death.sent != nullptr && code != kAddressError) return crash_cause(facts, death);
  ExitCause cause;
  cause.code = FindingCode::kBusErrorOnFileMapping;
  cause.confidence = death.sent == nullptr ? Confidence::kPossible : Confidence::kLikely;
  cause.clause =
      "was killed by SIGBUS: it read a page of a mapped file that does not exist (the file was "
      "truncated, or could not be read)";
  cause.discriminator = "file-mapping";
  cause.together = "bus";
  cause.evidence = signal_evidence(facts, death);
  add_room_in_shm(facts, death, cause);
  add_mapped_files(facts, death, cause);
  cause.rule_out(
      "killed by another process (DLP0503)",
      death.sent == nullptr ? "no program sends SIGBUS" : "the kernel raised the signal (code 2)");
  if (!cause.remedies.empty()) return cause;
  cause.remedies.push_back(
      {.title =
           "Do not rewrite a data file while jobs have it mapped: write a new file, then rename it",
       .commands = {"cp new.bin data.bin.tmp && mv data.bin.tmp data.bin"},
       .verify = "dlprobe run -- COMMAND"});
  cause.remedies.push_back(
      {.title =
           "Check that the data files are complete and readable, and that no other tmpfs is full",
       .commands = {"ls -l <data>; sha256sum <data>", "dmesg | grep -i 'i/o error'", "df -h"},
       .applies_to = {"bare-host"},
       .verify = "cat <data> > /dev/null"});
  return cause;
}

}  // namespace dlprobe::probes::exits
