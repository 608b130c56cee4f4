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
// (show_signal_msg in arch/x86/mm/fault.c), of a process without a handler.
bool is_logged_overflow(const Death& death) {
  constexpr uint64_t kNear = 16384;  // a frame's worth
  constexpr uint64_t kLowPages = 1 << 16;
  return std::ranges::any_of(death.log, [](const KernelLogLine* line) {
    const auto fault = hex_after(line->text, "segfault at ");
    const auto stack = hex_after(line->text, " sp ");
    if (!fault || !stack || *fault < kLowPages) return false;
    return std::max(*fault, *stack) - std::min(*fault, *stack) <= kNear;
  });
}

// The kernel found no room on the stack to call its handler, and raised the signal itself
// (force_sigsegv in kernel/signal.c): it still stands where the fault was. In a handler that fails
// by itself, as of a broken heap, it does not.
bool has_no_room_for_handler(const ExitFacts& facts, const Death& death) {
  constexpr BootNs kAtOnce = 10 * kMillisecond;
  return death.sent != nullptr && is_own_fault(*death.sent) &&
         std::ranges::any_of(facts.run->signals, [&](const SignalSent& sent) {
           return sent.target == death.sent->target && sent.signal == SIGSEGV &&
                  is_from_kernel(sent) && !is_own_fault(sent) && sent.at >= death.sent->at &&
                  sent.at <= death.sent->at + kAtOnce &&
                  (!sent.code_address || sent.code_address == death.sent->code_address);
         });
}

std::optional<uint64_t> stack_limit_of(const Death& death) {
  return death.process->stack_limit ? death.process->stack_limit->soft : std::nullopt;
}

constexpr uint64_t kLargestFrame = 1 << 20;

// Of the main thread, whose stack grows until its limit.
bool is_at_stack_limit(const Death& death) {
  constexpr uint64_t kNear = 65536;
  const auto limit = stack_limit_of(death);
  const auto used = death.sent == nullptr ? std::nullopt : death.sent->stack_used;
  return limit && used && *used + kNear >= *limit && *used <= *limit + kLargestFrame;
}

// What the process itself has written when it crashed; null: nothing.
const StartEvent* crash_of(const ExitFacts& facts, const Death& death) {
  const StartEvent* last = nullptr;
  for (const StartEvent& event : facts.run->start_events) {
    if (event.kind == StartEventKind::kCrashed && event.process == death.process->key)
      last = &event;
  }
  return last;
}

// Its call of sys.exit, where it had come to its end by that when native code crashed.
const StartEvent* exit_before(const ExitFacts& facts, const Death& death) {
  const auto& events = facts.run->start_events;
  const auto found = std::ranges::find_if(events, [&](const StartEvent& event) {
    return event.kind == StartEventKind::kExits && event.message == kCallOfExit &&
           event.process == death.process->key;
  });
  return found == events.end() ? nullptr : &*found;
}

bool is_recursion(const StartEvent* crash) {
  return crash != nullptr && crash->type == "recursion";
}

bool overflowed_stack(const ExitFacts& facts, const Death& death) {
  if (death.signal != SIGSEGV) return false;
  return is_logged_overflow(death) || has_no_room_for_handler(facts, death) ||
         is_at_stack_limit(death) || is_recursion(crash_of(facts, death));
}

// Also of a process that was forked by another thread than the main one: it goes on on that stack.
bool is_in_other_thread(const Death& death) {
  if (death.sent == nullptr) return false;
  const auto limit = stack_limit_of(death);
  const bool is_far =
      limit && death.sent->stack_used && *death.sent->stack_used > *limit + kLargestFrame;
  return is_far || (death.sent->thread && *death.sent->thread != death.process->key.pid);
}

// Which stack it was, and how large that may be.
Message stack_words(const Death& death) {
  if (is_in_other_thread(death)) return "; it was the stack of another thread than the main one";
  const auto limit = stack_limit_of(death);
  if (!limit) return "";
  return say("; its main thread may have {} of stack (ulimit -s)", format_bytes(*limit));
}

Message place_of_crash(const StartEvent* crash) {
  if (crash == nullptr || crash->file.empty()) return "";
  Message place = place_of(*crash);
  if (crash->type == "elsewhere")
    return say(", in a thread without Python; the main thread was{}", place);
  if (is_recursion(crash)) place += ", which is called by itself, over and over";
  return place;
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

// Where its line is known: what the call there hands over, and what the native stack was.
Remedy look_at_call(const ExitFacts& facts, const Death& death, const StartEvent& crash) {
  const std::vector<Message> debugger = {
      say("gdb -ex run -ex bt --args python {}", script_of(*facts.run, death.process->key))};
  if (crash.type == "elsewhere") {
    return {.title = "See in a debugger where the thread that crashed was: it runs no Python",
            .commands = debugger,
            .verify = "dlprobe run -- COMMAND"};
  }
  const Message place = short_place(crash);
  const bool is_abort = death.signal == SIGABRT;
  return {.title = say("Look at the call at {}: {}. A debugger shows the frames of C", place,
                       is_abort ? "what it printed last says what was wrong with what it was given"
                                : "that what it hands over is as large, and of the type, that the "
                                  "code expects, and still lives"),
          .commands = debugger,
          .verify = "dlprobe run -- COMMAND"};
}

Remedy look_with_faulthandler(const ExitFacts& facts, const Death& death) {
  const bool is_worker = death.process->role == Role::kWorker;
  Remedy look{.title = say("See which Python line crashed: run it with faulthandler{}",
                           is_worker ? " and at most one worker" : ""),
              .commands = {say("PYTHONFAULTHANDLER=1 python {}",
                               script_of(*facts.run, death.process->key))},
              .verify = "dlprobe run -- COMMAND"};
  if (is_worker && has_data_loader(*facts.run))
    look.commands.emplace_back("DataLoader(..., num_workers=0)");
  return look;
}

// CUDA opens dozens of devices; else a process has /dev/null, and perhaps a terminal, open.
bool uses_gpu(const Run& run, const ProcessKey& key) {
  constexpr uint64_t kMany = 8;
  return std::ranges::any_of(run.samples, [&](const Sample& sample) {
    const auto own = std::ranges::find(sample.processes, key, &ProcessSample::key);
    return own != sample.processes.end() && own->fds && *own->fds && (*own->fds)->devices >= kMany;
  });
}

// Torch calls abort() where it hears of a failed kernel while it frees memory of the GPU.
Remedy look_at_kernels() {
  return {.title =
              "On a GPU a kernel may have failed before that: run it so that each ends before "
              "the next line, which raises an exception then",
          .commands = {"CUDA_LAUNCH_BLOCKING=1 python train.py"},
          .verify = "dlprobe run -- COMMAND"};
}

void add_remedies_for_crash(const ExitFacts& facts, const Death& death, const StartEvent* crash,
                            ExitCause& cause) {
  const bool is_worker = death.process->role == Role::kWorker;
  const bool has_line = crash != nullptr && !crash->file.empty();
  Remedy look =
      has_line ? look_at_call(facts, death, *crash) : look_with_faulthandler(facts, death);
  if (!is_worker && death.process->rank_of_several() != nullptr && death.signal == SIGABRT) {
    look.title +=
        "; let torch compare what the ranks call, for Gloo calls abort() where a tensor "
        "of another rank has another size";
    look.commands = {say("PYTHONFAULTHANDLER=1 TORCH_DISTRIBUTED_DEBUG=DETAIL python {}",
                         script_of(*facts.run, death.process->key))};
  }
  if (death.signal == SIGABRT && uses_gpu(*facts.run, death.process->key))
    cause.remedies.push_back(look_at_kernels());
  cause.remedies.push_back(std::move(look));
  if (!is_worker) return;
  cause.remedies.push_back(
      {.title = "If it crashes only in workers: open files, databases (lmdb), MPI and GPU contexts "
                "in the worker, not before the fork, or start workers by spawn",
       .commands = open_in_worker(has_data_loader(*facts.run)),
       .verify = "dlprobe run -- COMMAND",
       .settings = {{SettingKind::kStartMethod, "", "spawn"}}});
}

Remedy more_stack(const Death& death, const StartEvent* crash) {
  Remedy remedy{.verify = "dlprobe run -- COMMAND"};
  if (is_recursion(crash)) {
    remedy.title =
        say("Replace the recursion at {} by a loop, or lower sys.setrecursionlimit() so "
            "that it raises RecursionError; or allow more stack",
            short_place(*crash));
  } else if (crash != nullptr && !crash->file.empty()) {
    remedy.title = say("Find what the code that is called at {} recurses over, or allow more stack",
                       short_place(*crash));
  } else {
    remedy.title = "Find the endless recursion, or allow more stack";
  }
  if (!is_in_other_thread(death)) remedy.commands.emplace_back("ulimit -s 65536");
  remedy.commands.emplace_back("threading.stack_size(512 << 20)  # of the thread that recurses");
  return remedy;
}

void add_stack_facts(const Death& death, ExitCause& cause) {
  if (is_in_other_thread(death)) return;
  if (const auto limit = stack_limit_of(death))
    cause.prove(bytes_fact("stack_limit", *limit, "Max stack size of /proc/PID/limits"));
  if (death.sent != nullptr && death.sent->stack_used) {
    cause.prove(bytes_fact("stack_used", *death.sent->stack_used,
                           "user registers at the tracepoint, /proc/PID/maps", death.sent->at));
  }
}

// The kernel sends it for nothing else on the machines that PyTorch runs on.
ExitCause forbidden_call_cause(const ExitFacts& facts, const Death& death) {
  ExitCause cause;
  cause.code = FindingCode::kWorkerCrashed;
  cause.confidence = Confidence::kLikely;
  cause.clause = "was ended by SIGSYS: it made a system call that a seccomp filter forbids";
  cause.discriminator = "seccomp";
  cause.together = "seccomp";
  cause.evidence = signal_evidence(facts, death);
  cause.remedies.push_back(
      {.title = "See which call it is, and allow it: in the container's seccomp profile, or in the "
                "sandbox that the program sets up",
       .commands = {"dmesg | grep 'type=1326'  # syscall=NUMBER",
                    "docker run --security-opt seccomp=profile.json ..."},
       .applies_to = {"bare-host", "docker"},
       .verify = "grep Seccomp /proc/self/status  # 0: no filter"});
  return cause;
}

}  // namespace

ExitCause crash_cause(const ExitFacts& facts, const Death& death) {
  if (death.signal == SIGSYS) return forbidden_call_cause(facts, death);
  ExitCause cause;
  cause.code = FindingCode::kWorkerCrashed;
  const StartEvent* crash = crash_of(facts, death);
  const bool is_overflow = overflowed_stack(facts, death);
  cause.clause = (is_overflow ? "overflowed its stack: " : "crashed: ") +
                 signal_name(death.signal) + place_of(death);
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
                   is_from_kernel(*death.sent)
                       ? "the kernel raised the signal because of its own code"
                       : "it sent the signal to itself, as abort() does");
  } else {
    cause.confidence = Confidence::kLikely;
  }
  const auto word = word_of(*facts.run, death.process->key);
  if (word && word->remedy && word->kind == kCallOfAbort && !is_overflow) {
    cause.clause += word->clause;
    std::ranges::copy(word->evidence, std::back_inserter(cause.evidence));
    cause.remedies.push_back(*word->remedy);
    return cause;
  }
  cause.clause += place_of_crash(crash);
  const bool has_line = crash != nullptr && !crash->file.empty();
  const StartEvent* left = has_line ? nullptr : exit_before(facts, death);
  if (left != nullptr) {
    cause.clause += say(" as it ended, after it had called sys.exit{}", place_of(*left));
    cause.prove(text_fact("called_at", whole_place(*left), kShimSource, left->at));
    cause.advise(
        say("See why the program leaves{}, and destroy its process group before", place_of(*left)),
        {"torch.distributed.destroy_process_group()"}, "dlprobe run -- COMMAND");
  }
  if (crash != nullptr && !crash->file.empty())
    cause.prove(text_fact("crashed_at", whole_place(*crash), kShimSource, crash->at));
  if (is_overflow) {
    cause.clause += stack_words(death);
    add_stack_facts(death, cause);
    cause.remedies.push_back(more_stack(death, crash));
    return cause;
  }
  add_remedies_for_crash(facts, death, crash, cause);
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
void add_mapped_files(const ExitFacts& facts, const Death& death, const Message& killed,
                      ExitCause& cause) {
  constexpr const char* kSource = "/proc/PID/maps, stat and statfs of the files, at the signal";
  const auto full = mapped_files(facts, death, "mapped-file-without-room");
  const auto cut = mapped_files(facts, death, "mapped-file-cut-short");
  for (const Event* event : full)
    cause.prove(text_fact("without_room", event->text, kSource, event->at));
  const auto elsewhere = mapped_files(facts, death, "file-system-without-room");
  for (const Event* event : elsewhere)
    cause.prove(text_fact("without_room", event->text, kSource, event->at));
  for (const Event* event : cut)
    cause.prove(text_fact("cut_short", event->text, kSource, event->at));
  if (!full.empty() && cut.empty()) {
    cause.clause =
        killed + ", in writing to a page of a mapped file that had no room; " + full.front()->text;
    cause.discriminator = "no-room";
    cause.remedies.push_back(reserve_space());
  } else if (cut.size() == 1 && full.empty()) {
    cause.clause =
        killed + ", for a page of a mapped file that does not exist; " + cut.front()->text;
  } else if (full.empty() && cut.empty() && !elsewhere.empty()) {
    cause.clause = killed + ", for a page of a mapped file without data, maybe one there: " +
                   elsewhere.front()->text;
    cause.discriminator = "no-room";
    cause.remedies.push_back(reserve_space());
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
  const StartEvent* crash = crash_of(facts, death);
  const Message killed = "was killed by SIGBUS" + place_of_crash(crash);
  cause.clause = killed +
                 ", for a page of a mapped file that does not exist: the file was cut short, could "
                 "not be read, or its file system was full";
  cause.discriminator = "file-mapping";
  cause.together = "bus";
  cause.evidence = signal_evidence(facts, death);
  add_room_in_shm(facts, death, cause);
  add_mapped_files(facts, death, killed, cause);
  if (crash != nullptr && !crash->file.empty())
    cause.prove(text_fact("crashed_at", whole_place(*crash), kShimSource, crash->at));
  cause.rule_out(
      "killed by another process (DLP0503)",
      death.sent == nullptr ? "no program sends SIGBUS" : "the kernel raised the signal (code 2)");
  if (!cause.remedies.empty()) return cause;
  cause.advise(
      "Do not rewrite a data file while jobs have it mapped: write a new file, then rename it",
      {"cp new.bin data.bin.tmp && mv data.bin.tmp data.bin"}, "dlprobe run -- COMMAND");
  cause.remedies.push_back(
      {.title =
           "Check that the data files are complete and readable, and that no other tmpfs is full",
       .commands = {"ls -l <data>; sha256sum <data>", "dmesg | grep -i 'i/o error'", "df -h"},
       .applies_to = {"bare-host"},
       .verify = "cat <data> > /dev/null"});
  return cause;
}

}  // namespace dlprobe::probes::exits
