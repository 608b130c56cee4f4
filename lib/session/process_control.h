#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/model/ids.h"
#include "lib/os/machine.h"
#include "lib/subject/child_process.h"

namespace dlprobe {

/// Signals to dlprobe, held back while this lives: SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1,
/// SIGUSR2 and SIGCHLD.
class HeldSignals {
 public:
  virtual ~HeldSignals() = default;
  HeldSignals() = default;
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  /// To be polled for reading; -1: nothing to poll.
  virtual int descriptor() const = 0;
  /// The next signal that came; nothing if none waits.
  virtual std::optional<signalfd_siginfo> next() const = 0;
};

/// What a session does to processes, and how it waits: all that is no mere look. A test has its
/// own, which starts nothing and whose time passes at once.
class ProcessControl {
 public:
  virtual ~ProcessControl() = default;
  ProcessControl() = default;
  ProcessControl(const ProcessControl&) = delete;
  ProcessControl& operator=(const ProcessControl&) = delete;

  /// The pid of dlprobe, the parent of what it starts.
  virtual pid_t own_pid() const = 0;

  /// See the functions of these names in lib/subject/child_process.h; this one is start_child.
  virtual Expected<pid_t> start(const ChildSpec& spec) = 0;
  virtual std::optional<EndedChild> next_ended_child() = 0;
  virtual bool has_children() = 0;
  virtual void reap(const EndedChild& child) = 0;

  /// kill(2): for a process that nobody can have reaped.
  virtual void signal(pid_t pid, int signal) = 0;
  /// pidfd_send_signal(2).
  virtual void signal_by_pidfd(const UniqueFd& pidfd, int signal) = 0;

  /// TrialWarden::start. It is dismissed when the last copy goes.
  virtual Expected<std::shared_ptr<void>> guard_trial(const std::string& folder) = 0;

  virtual std::unique_ptr<HeldSignals> hold_signals() = 0;

  /// Waits until one of the descriptors can be read (-1 never can), for no longer than `longest`.
  /// Says of each whether it can; empty if none can. Where it cannot tell, each may be.
  virtual std::vector<bool> wait(std::span<const int> descriptors, BootNs longest) = 0;
};

/// The live machine's.
class SystemControl final : public ProcessControl {
 public:
  pid_t own_pid() const override;
  Expected<pid_t> start(const ChildSpec& spec) override;
  std::optional<EndedChild> next_ended_child() override;
  bool has_children() override;
  void reap(const EndedChild& child) override;
  void signal(pid_t pid, int signal) override;
  void signal_by_pidfd(const UniqueFd& pidfd, int signal) override;
  Expected<std::shared_ptr<void>> guard_trial(const std::string& folder) override;
  std::unique_ptr<HeldSignals> hold_signals() override;
  std::vector<bool> wait(std::span<const int> descriptors, BootNs longest) override;
};

/// Gives a signal that asks dlprobe to end on to the command that it runs. A signal of the terminal
/// (Ctrl-C) went to the whole foreground process group: the command has it already.
void forward_signal(ProcessControl& control, const signalfd_siginfo& signal, pid_t child);

/// Sends a signal to a process of a tree that dlprobe started, unless it has ended: never to
/// another that has its pid by now.
void signal_process(ProcessControl& control, const Machine& machine, const ProcessKey& key,
                    int signal);

/// Reaps all children that have ended.
void reap_ended_children(ProcessControl& control);

/// Starts it. Besides the errors of start_child, kVanished: it was started, and has ended.
Expected<ProcessKey> start_process(ProcessControl& control, const Machine& machine,
                                   const ChildSpec& spec);

}  // namespace dlprobe
