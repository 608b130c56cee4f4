#include "lib/os/thread_stop.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <ctime>
#include <string>
#include <thread>
#include <utility>

namespace dlprobe {
namespace {

using Clock = std::chrono::steady_clock;

struct Tracee {
  int32_t tid = 0;
  bool stopped = false;
  int signal = 0;  ///< that it was about to get when it stopped
};

#if defined(__x86_64__)
/// In the order of UNW_X86_64_RAX ... (libunwind-x86_64.h: the numbers of DWARF).
StoppedThread to_stopped(int32_t tid, const user_regs_struct& r) {
  return {.tid = tid,
          .registers = {r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8, r.r9, r.r10,
                        r.r11, r.r12, r.r13, r.r14, r.r15, r.rip},
          .stack_pointer = r.rsp,
          .program_counter = r.rip};
}
#elif defined(__aarch64__)
/// In the order of UNW_AARCH64_X0 ... X30, SP, PC.
StoppedThread to_stopped(int32_t tid, const user_regs_struct& r) {
  StoppedThread thread{.tid = tid, .registers = {}, .stack_pointer = r.sp, .program_counter = r.pc};
  thread.registers.assign(std::begin(r.regs), std::end(r.regs));
  thread.registers.push_back(r.sp);
  thread.registers.push_back(r.pc);
  return thread;
}
#endif

/// One stop, made by a thread of its own.
class Stopper {
 public:
  Stopper(std::span<const int32_t> tids, std::chrono::nanoseconds budget,
          const std::function<void(std::span<const StoppedThread>)>& while_stopped)
      : tids_(tids), budget_(budget), while_stopped_(while_stopped) {}

  ThreadStop run() {
    seize();
    if (!tracees_.empty()) {
      const auto started = Clock::now();
      interrupt();
      wait_until(started + budget_ / 2);
      read_registers();
      if (!result_.threads.empty()) while_stopped_(result_.threads);
      release();
      result_.pause = Clock::now() - started;
    }
    return std::move(result_);
  }

 private:
  void seize() {
    for (const int32_t tid : tids_) {
      if (::ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) == 0) {
        tracees_.push_back({.tid = tid});
        continue;
      }
      result_.error = os_error("ptrace(PTRACE_SEIZE) of thread " + std::to_string(tid));
      result_.not_stopped.push_back(tid);
    }
  }

  void interrupt() {
    for (const Tracee& tracee : tracees_)
      ::ptrace(PTRACE_INTERRUPT, tracee.tid, nullptr, nullptr);
  }

  /// Without sleeping first: a stop takes microseconds.
  void wait_until(Clock::time_point deadline) {
    for (size_t left = tracees_.size(); left > 0;) {
      for (Tracee& tracee : tracees_) {
        int status = 0;
        if (tracee.stopped || ::waitpid(tracee.tid, &status, __WALL | WNOHANG) != tracee.tid) {
          continue;
        }
        tracee.stopped = WIFSTOPPED(status);
        // A stop of its own kind needs nothing; one before a signal is delivered passes it on.
        const bool by_event = (status >> 16) == PTRACE_EVENT_STOP;
        tracee.signal = tracee.stopped && !by_event ? WSTOPSIG(status) : 0;
        --left;
      }
      if (left == 0 || Clock::now() >= deadline) return;
      const timespec moment{.tv_sec = 0, .tv_nsec = 5'000};
      ::nanosleep(&moment, nullptr);
    }
  }

  void read_registers() {
    for (const Tracee& tracee : tracees_) {
      user_regs_struct registers{};
      iovec area{.iov_base = &registers, .iov_len = sizeof registers};
      // NT_PRSTATUS is what the kernel calls the general registers.
      const bool read = tracee.stopped && ::ptrace(PTRACE_GETREGSET, tracee.tid,
                                                   static_cast<long>(NT_PRSTATUS), &area) == 0;
      if (read) {
        result_.threads.push_back(to_stopped(tracee.tid, registers));
      } else {
        result_.not_stopped.push_back(tracee.tid);
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
  const std::function<void(std::span<const StoppedThread>)>& while_stopped_;
  std::vector<Tracee> tracees_;
  ThreadStop result_;
};

}  // namespace

ThreadStop stop_threads(std::span<const int32_t> tids, std::chrono::nanoseconds budget,
                        const std::function<void(std::span<const StoppedThread>)>& while_stopped) {
  ThreadStop result;
  std::thread tracer([&] { result = Stopper(tids, budget, while_stopped).run(); });
  tracer.join();
  return result;
}

}  // namespace dlprobe
