#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <optional>

#include "lib/base/unique_fd.h"
#include "lib/model/ids.h"
#include "lib/os/machine.h"

namespace dlprobe {

/// Turns SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 and SIGCHLD of dlprobe into something
/// to poll for, for as long as it lives.
class SignalFd {
 public:
  SignalFd();
  ~SignalFd();
  SignalFd(const SignalFd&) = delete;
  SignalFd& operator=(const SignalFd&) = delete;

  int get() const { return fd_.get(); }
  /// The next signal that came; nothing if none waits.
  std::optional<signalfd_siginfo> next() const;

 private:
  sigset_t old_mask_ = {};
  UniqueFd fd_;
};

/// Gives a signal that asks dlprobe to end on to the command that it runs. A signal of the terminal
/// (Ctrl-C) went to the whole foreground process group: the command has it already.
void forward_signal(const signalfd_siginfo& signal, pid_t child);

/// Sends a signal to a process of a tree that dlprobe started, unless it has ended: never to
/// another that has its pid by now.
void signal_process(const Machine& machine, const ProcessKey& key, int signal);

}  // namespace dlprobe
