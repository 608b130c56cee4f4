#include "tools/dlprobe/signals.h"

#include <unistd.h>

#include <csignal>

namespace dlprobe {

SignalFd::SignalFd() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD})
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
  const bool came_from_terminal = signal.ssi_code == SI_KERNEL;
  if (!came_from_terminal) ::kill(child, static_cast<int>(signal.ssi_signo));
}

}  // namespace dlprobe
