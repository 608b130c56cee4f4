#include "tools/reference_loader/signals.h"

#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <string_view>

namespace dlprobe::loader {
namespace {

// A signal handler can reach nothing but globals.
std::atomic<int> caught_signal = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> wake_fd = -1;       // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void remember(int signal) {
  caught_signal = signal;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd, &one, sizeof one);
}

void handle(int signal, void (*handler)(int), unsigned flags) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = static_cast<int>(flags);
  sigaction(signal, &action, nullptr);
}

std::string_view crash_message(int signal) {
  switch (signal) {
    case SIGBUS:
      return "ERROR: Unexpected bus error encountered in worker. This might be caused by "
             "insufficient shared memory (shm).\n";
    case SIGSEGV:
      return "ERROR: Unexpected segmentation fault encountered in worker.\n";
    default:
      return "ERROR: Unexpected floating-point exception encountered in worker.\n";
  }
}

void report_crash(int signal) {
  const std::string_view text = crash_message(signal);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  die_by(signal);
}

}  // namespace

void install_stop_handlers() {
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  for (const int signal : {SIGINT, SIGTERM})
    handle(signal, remember, 0);
  // Under nohup a hang-up is ignored, and stays so.
  struct sigaction hang_up{};
  sigaction(SIGHUP, nullptr, &hang_up);
  if (hang_up.sa_handler != SIG_IGN) handle(SIGHUP, remember, 0);
  handle(SIGPIPE, SIG_IGN, 0);
}

int stop_signal() {
  return caught_signal;
}

int stop_fd() {
  return wake_fd;
}

void die_by(int signal) {
  handle(signal, SIG_DFL, 0);
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
  _exit(128 + signal);
}

void install_worker_handlers() {
  // SA_NODEFER, or the raise() inside the handler would only take effect after its return.
  for (const int signal : {SIGBUS, SIGSEGV, SIGFPE})
    handle(signal, report_crash, SA_NODEFER);
  for (const int signal : {SIGTERM, SIGHUP})
    handle(signal, SIG_DFL, 0);
  handle(SIGINT, SIG_IGN, 0);
  handle(SIGPIPE, SIG_IGN, 0);
}

void die_with_parent(int parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died between the fork and the prctl.
  if (getppid() != parent) _exit(1);
}

ParentDeathPause::ParentDeathPause() : parent_(getppid()) {
  prctl(PR_GET_PDEATHSIG, &signal_);
  prctl(PR_SET_PDEATHSIG, 0);
}

ParentDeathPause::~ParentDeathPause() {
  prctl(PR_SET_PDEATHSIG, signal_);
  if (signal_ != 0 && getppid() != parent_) die_by(signal_);
}

void set_process_name(const char* name) {
  prctl(PR_SET_NAME, name);
}

}  // namespace dlprobe::loader
