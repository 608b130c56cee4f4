#include "tools/dlprobe/signals.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

#include "lib/collect/tracked_process.h"

namespace dlprobe {

SignalFd::SignalFd() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
    sigaddset(&mask, signal);
  ::pthread_sigmask(SIG_BLOCK, &mask, &old_mask_);
  fd_.reset(::signalfd(-1, &mask, SFD_NONBLOCK | SFD_CLOEXEC));
}

SignalFd::~SignalFd() {
  // What came while we were ending has been taken care of; delivering it now would hide the report.
  while (next()) {
  }
  ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
}

std::optional<signalfd_siginfo> SignalFd::next() const {
  signalfd_siginfo signal = {};
  if (::read(fd_.get(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
  return signal;
}

void forward_signal(const signalfd_siginfo& signal, pid_t child) {
  const auto number = static_cast<int>(signal.ssi_signo);
  // The kernel sends the keys' signals to the whole foreground group, but a hang-up of the terminal
  // to the leader of its session alone.
  const bool is_for_leader = number == SIGHUP && ::getsid(0) == ::getpid();
  if (signal.ssi_code != SI_KERNEL || is_for_leader) ::kill(child, number);
}

void signal_process(const Machine& machine, const ProcessKey& key, int signal) {
  const auto pidfd = machine.processes->open_pidfd(key.pid);
  // Opened first: what has that start time now is what the pidfd stands for.
  if (!pidfd || process_key(machine, key.pid) != key) return;
  ::syscall(SYS_pidfd_send_signal, pidfd->get(), signal, nullptr, 0);
}

}  // namespace dlprobe
