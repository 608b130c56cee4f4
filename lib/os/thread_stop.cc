#include "lib/os/thread_stop.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <semaphore>
#include <string>
#include <thread>

#include "lib/os/file_system.h"
#include "lib/os/thread_start.h"

namespace dlprobe {
namespace {

using Steady = std::chrono::steady_clock;

/// For how long the first stop is waited for: several turns of a busy machine's scheduler.
constexpr auto kFirstStop = std::chrono::milliseconds(200);

struct Tracee {
  int32_t tid = 0;
  bool stopped = false;
  int signal = 0;  ///< that it was about to get when it stopped
};

#ifdef __x86_64__
std::optional<BlockedCall> blocked_call(const user_regs_struct& r) {
  // include/linux/errno.h: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND, ERESTART_RESTARTBLOCK.
  constexpr std::array<int64_t, 4> kRestarts = {-512, -513, -514, -516};
  const auto number = static_cast<int64_t>(r.orig_rax);
  const auto result = static_cast<int64_t>(r.rax);
  const bool restarts = std::ranges::find(kRestarts, result) != kRestarts.end();
  const bool timed_out = number == SYS_futex && result == -ETIMEDOUT;
  if (number < 0 || (!restarts && !timed_out)) return std::nullopt;
  return BlockedCall{.number = number, .args = {r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9}};
}

/// In the order of UNW_X86_64_RAX ... (libunwind-x86_64.h: the numbers of DWARF).
StoppedThread to_stopped(int32_t tid, const user_regs_struct& r) {
  return {.tid = tid,
          .registers = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10,
                        r.r11, r.r12, r.r13, r.r14, r.r15, r.rip},
          .stack_pointer = r.rsp,
          .program_counter = r.rip,
          .blocked_in = blocked_call(r)};
}
#elifdef __aarch64__
/// The kernel has already put back what the call began with (arch/arm64/kernel/signal.c,
/// do_signal): the thread stands before the instruction that calls, the number is in x8. Of a
/// futex(2) that says ETIMEDOUT the first argument is lost.
std::optional<BlockedCall> blocked_call(int32_t tid, const user_regs_struct& r) {
  constexpr uint32_t kSupervisorCall = 0xd4000001;  // svc #0
  errno = 0;
  const long code = ::ptrace(PTRACE_PEEKTEXT, tid, r.pc, nullptr);
  if (errno != 0 || static_cast<uint32_t>(code) != kSupervisorCall) return std::nullopt;
  return BlockedCall{.number = static_cast<int64_t>(r.regs[8]),
                     .args = {r.regs[0], r.regs[1], r.regs[2], r.regs[3], r.regs[4], r.regs[5]}};
}

/// In the order of UNW_AARCH64_X0 ... X30, SP, PC.
StoppedThread to_stopped(int32_t tid, const user_regs_struct& r) {
  StoppedThread thread{.tid = tid,
                       .stack_pointer = r.sp,
                       .program_counter = r.pc,
                       .blocked_in = blocked_call(tid, r)};
  thread.registers.assign(std::begin(r.regs), std::end(r.regs));
  thread.registers.push_back(r.sp);
  thread.registers.push_back(r.pc);
  return thread;
}
#endif

/// What the caller and the thread that stops say to each other.
struct Handover {
  std::binary_semaphore stopped{0};  ///< the threads stand still; their registers are there
  std::binary_semaphore copied{0};   ///< the caller has what it wants
};

/// While others stand still for it, a thread goes first: on a machine that is busy, and those are
/// looked at, a wake-up takes milliseconds otherwise. Needs a right (CAP_SYS_NICE): as it is
/// without.
class Hurry {
 public:
  Hurry() : before_(::getpriority(PRIO_PROCESS, 0)) { ::setpriority(PRIO_PROCESS, 0, kFirst); }
  ~Hurry() { ::setpriority(PRIO_PROCESS, 0, before_); }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

 private:
  static constexpr int kFirst = -20;
  int before_;
};

/// While threads stand still, dlprobe itself is not stopped by a terminal (Ctrl-Z, or output or
/// input in the background): they would stand until somebody lets it go on. Holds for this thread
/// and those that it starts; the signal is delivered afterwards. SIGSTOP cannot be held back.
class NoJobControl {
 public:
  NoJobControl() {
    sigset_t stops;
    ::sigemptyset(&stops);
    for (const int number : {SIGTSTP, SIGTTIN, SIGTTOU})
      ::sigaddset(&stops, number);
    ::pthread_sigmask(SIG_BLOCK, &stops, &before_);
  }
  ~NoJobControl() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoJobControl(const NoJobControl&) = delete;
  NoJobControl& operator=(const NoJobControl&) = delete;

 private:
  sigset_t before_ = {};
};

/// Of one that has ended, and that nobody has waited for yet, ptrace(2) says EPERM, too
/// (ptrace_attach in kernel/ptrace.c: exit_state).
Error why_not_seized(int32_t tid) {
  Error why = os_error("ptrace(PTRACE_SEIZE) of thread " + std::to_string(tid));
  if (why.code != ErrorCode::kForbidden) return why;
  const auto directory = open_root("/proc/" + std::to_string(tid));
  const auto stat = chain(directory, [](const auto& process) { return process->read("stat"); });
  const size_t behind_name = stat ? stat->rfind(") ") : std::string::npos;
  const char state = behind_name == std::string::npos ? 'X' : stat->substr(behind_name + 2)[0];
  if (state == 'Z' || state == 'X') why.code = ErrorCode::kVanished;
  return why;
}

/// Waits without sleeping at first: to be woken takes longer than what is waited for.
bool acquire_soon(std::binary_semaphore& semaphore, Steady::time_point deadline) {
  constexpr int kYields = 2'000;
  for (int i = 0; i < kYields && Steady::now() < deadline; ++i) {
    if (semaphore.try_acquire()) return true;
    std::this_thread::yield();
  }
  return semaphore.try_acquire_until(deadline);
}

/// One stop, made by a thread of its own.
class Stopper {
 public:
  Stopper(std::span<const int32_t> tids, std::chrono::nanoseconds budget, Handover& handover,
          ThreadStop& result)
      : tids_(tids), budget_(budget), handover_(handover), result_(result) {}

  void run() {
    const Hurry hurry;
    seize();
    interrupt();
    wait();
    read_registers();
    handover_.stopped.release();
    if (!result_.threads.empty()) {
      result_.in_time = acquire_soon(handover_.copied, first_stop_ + budget_);
    }
    release();
    if (any_stopped_) result_.pause = Steady::now() - first_stop_;
  }

 private:
  void seize() {
    tracees_.reserve(tids_.size());
    for (const int32_t tid : tids_) {
      if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
        tracees_.push_back({.tid = tid});
        continue;
      }
      result_.not_stopped.push_back({.tid = tid, .why = why_not_seized(tid)});
    }
  }

  void interrupt() {
    for (const Tracee& tracee : tracees_)
      ::ptrace(PTRACE_INTERRUPT, tracee.tid, nullptr, nullptr);
  }

  /// Whether there is nothing more to wait for.
  static bool look_at(Tracee& tracee) {
    siginfo_t info{};
    // Not waitpid: that would take the exit status from whoever waits for a child of dlprobe.
    const int failed =
        ::waitid(P_PID, static_cast<id_t>(tracee.tid), &info, WSTOPPED | WNOHANG | __WNOTHREAD);
    if (failed != 0) return errno != EINTR;  // gone
    if (info.si_pid == 0) return false;
    tracee.stopped = true;
    // A stop of its own kind needs nothing; one before a signal is delivered passes it on.
    const bool by_event = (info.si_status >> 8) != 0;
    tracee.signal = by_event ? 0 : info.si_status;
    return true;
  }

  /// Without sleeping first: a stop takes microseconds. While nobody has stopped nobody is harmed:
  /// a thread that waits for a CPU of a busy machine has to get one before it stops.
  void wait() {
    const auto started = Steady::now();
    std::vector<Tracee*> left;
    left.reserve(tracees_.size());
    for (Tracee& tracee : tracees_)
      left.push_back(&tracee);
    while (true) {
      const auto now = Steady::now();
      std::erase_if(left, [](Tracee* tracee) { return look_at(*tracee); });
      if (!any_stopped_) first_stop_ = now;
      any_stopped_ = any_stopped_ || std::ranges::any_of(tracees_, &Tracee::stopped);
      const auto deadline = any_stopped_ ? first_stop_ + budget_ / 2 : started + kFirstStop;
      if (left.empty() || Steady::now() >= deadline) return;
      const timespec moment{.tv_sec = 0, .tv_nsec = 5'000};
      ::nanosleep(&moment, nullptr);
    }
  }

  void read_registers() {
    for (const Tracee& tracee : tracees_) {
      user_regs_struct registers{};
      iovec area{.iov_base = &registers, .iov_len = sizeof registers};
      if (!tracee.stopped) {
        result_.not_stopped.push_back({.tid = tracee.tid,
                                       .why = {.code = ErrorCode::kTimeout,
                                               .context = "stop it: it did not answer in time"}});
      } else if (::ptrace(PTRACE_GETREGSET, tracee.tid, static_cast<long>(NT_PRSTATUS), &area) !=
                 0) {  // NT_PRSTATUS is what the kernel calls the general registers
        result_.not_stopped.push_back(
            {.tid = tracee.tid, .why = os_error("ptrace(PTRACE_GETREGSET)")});
      } else {
        result_.threads.push_back(to_stopped(tracee.tid, registers));
      }
    }
  }

  void release() {
    for (const Tracee& tracee : tracees_) {
      if (tracee.stopped) {
        ::ptrace(PTRACE_DETACH, tracee.tid, nullptr, static_cast<long>(tracee.signal));
      }
    }
  }

  std::span<const int32_t> tids_;
  std::chrono::nanoseconds budget_;
  Handover& handover_;
  ThreadStop& result_;
  std::vector<Tracee> tracees_;
  bool any_stopped_ = false;
  Steady::time_point first_stop_;  ///< not after it: when none was seen stopped for the last time
};

}  // namespace

ThreadStop stop_threads(std::span<const int32_t> tids, std::chrono::nanoseconds budget,
                        const std::function<void(std::span<const StoppedThread>)>& while_stopped) {
  ThreadStop result;
  Handover handover;
  const NoJobControl undisturbed;
  auto tracer =
      start_thread("stop threads", [&] { Stopper(tids, budget, handover, result).run(); });
  if (!tracer) {
    for (const int32_t tid : tids)
      result.not_stopped.push_back({.tid = tid, .why = tracer.error()});
    return result;
  }
  {
    const Hurry hurry;
    if (!acquire_soon(handover.stopped, Steady::now() + kFirstStop)) handover.stopped.acquire();
    if (!result.threads.empty()) {
      while_stopped(result.threads);
      handover.copied.release();
    }
  }
  tracer->join();
  return result;
}

}  // namespace dlprobe
