#pragma once

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/units.h"
#include "lib/session/process_control.h"
#include "tests/support/fake_clock.h"
#include "tests/support/fake_files.h"
#include "tests/support/made_up_process.h"

namespace dlprobe {

/// Processes that are files in a made-up /proc and nothing else, and a time that passes when the
/// session waits. What happens in it a test says beforehand: in(), on_start.
class FakeControl final : public ProcessControl {
 public:
  static constexpr pid_t kOwnPid = 50;

  FakeControl(FakeFiles& files, FakeClock& clock)
      : files_(files),
        clock_(clock),
        news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        access_(std::make_shared<Access>()) {
    add({.pid = kOwnPid, .ppid = 1, .comm = "dlprobe", .exe = "/usr/bin/dlprobe"});
  }

  // What a test says.

  /// What a started process does; by default it goes on until it gets a signal.
  std::function<void(pid_t)> on_start = [](pid_t) {};
  /// Why nothing can be started; or none.
  std::optional<Error> start_error;
  std::set<pid_t> deaf;  ///< processes that SIGTERM does not end

  /// Does that once so much time has passed from now on.
  void in(BootNs time, std::function<void()> what) {
    events_.emplace(clock_.now() + time, std::move(what));
  }
  void add(const MadeUpProcess& process) {
    processes_[process.pid] = process;
    add_process(files_, process);
    if (process.ppid != 1) list_children(process.ppid);
  }
  /// A process starts another.
  pid_t fork(pid_t parent) {
    add({.pid = next_pid_, .ppid = parent});
    return next_pid_++;
  }
  /// A process ends with that wait status; dlprobe adopts its children.
  void end(pid_t pid, int wait_status) {
    const auto found = processes_.find(pid);
    if (found == processes_.end() || found->second.state == 'Z') return;
    change(pid, [&](MadeUpProcess& process) {
      process.state = 'Z';
      process.wait_status = wait_status;
    });
    for (const pid_t child : children_of(pid))
      change(child, [](MadeUpProcess& process) { process.ppid = kOwnPid; });
    list_children(kOwnPid);
    if (processes_.at(pid).ppid == kOwnPid) {
      come(SIGCHLD);
    } else {
      remove(pid);
    }
  }
  /// The pid of a process that has ended is given to one that is nobody's.
  void give_pid_to_stranger(pid_t pid) {
    remove(pid);
    add({.pid = pid, .ppid = 1, .comm = "sshd", .exe = "/usr/sbin/sshd", .start_ticks = 77'777});
  }
  /// The user or somebody else sends dlprobe a signal.
  void come(int signal) {
    signalfd_siginfo info = {};
    info.ssi_signo = static_cast<uint32_t>(signal);
    signals_.push_back(info);
    ::eventfd_write(news_.get(), 1);
  }

  // What it saw.

  std::vector<ChildSpec> started;
  std::vector<std::pair<pid_t, int>> sent;  ///< signals to processes
  int guards = 0;                           ///< of trials, that were not dismissed

  bool lives(pid_t pid) const {
    const auto found = processes_.find(pid);
    return found != processes_.end() && found->second.state != 'Z';
  }
  std::shared_ptr<const ProcessAccess> access() const { return access_; }

  // What a session does.

  pid_t own_pid() const override { return kOwnPid; }
  Expected<pid_t> start(const ChildSpec& spec) override {
    started.push_back(spec);
    if (start_error) return std::unexpected(*start_error);
    const pid_t pid = fork(kOwnPid);
    if (spec.before_exec) spec.before_exec(pid);
    on_start(pid);
    return pid;
  }
  std::optional<EndedChild> next_ended_child() override {
    for (const auto& [pid, process] : processes_) {
      if (process.ppid == kOwnPid && process.state == 'Z')
        return EndedChild{.pid = pid, .wait_status = process.wait_status};
    }
    return std::nullopt;
  }
  bool has_children() override { return !children_of(kOwnPid).empty(); }
  void reap(const EndedChild& child) override { remove(child.pid); }
  void signal(pid_t pid, int signal) override {
    sent.emplace_back(pid, signal);
    if (signal == SIGKILL || ((signal == SIGTERM || signal == SIGINT) && !deaf.contains(pid)))
      end(pid, signal);
  }
  void signal_by_pidfd(const UniqueFd& pidfd, int number) override {
    signal(access_->pids.at(pidfd.get()), number);
  }
  Expected<std::shared_ptr<void>> guard_trial(const std::string& /*folder*/) override {
    ++guards;
    return std::shared_ptr<void>(this, [this](void*) { --guards; });
  }
  std::unique_ptr<HeldSignals> hold_signals() override { return std::make_unique<Signals>(*this); }
  std::vector<bool> wait(std::span<const int> descriptors, BootNs longest) override {
    const BootNs until = clock_.now() + longest;
    for (;;) {
      happen();
      std::vector<bool> readable = readable_now(descriptors);
      if (!readable.empty() || clock_.now() >= until) return readable;
      clock_.set(events_.empty() ? until : std::min(until, events_.begin()->first));
    }
  }

 private:
  /// A pidfd is a descriptor that never becomes readable.
  struct Access final : ProcessAccess {
    Expected<UniqueFd> open_pidfd(pid_t pid) const override {
      UniqueFd pidfd(::eventfd(0, EFD_CLOEXEC));
      pids[pidfd.get()] = pid;
      return pidfd;
    }
    mutable std::map<int, pid_t> pids;
  };
  class Signals final : public HeldSignals {
   public:
    explicit Signals(FakeControl& control) : control_(control) {}
    int descriptor() const override { return control_.news_.get(); }
    std::optional<signalfd_siginfo> next() const override {
      eventfd_t count = 0;
      ::eventfd_read(control_.news_.get(), &count);
      if (control_.signals_.empty()) return std::nullopt;
      const signalfd_siginfo first = control_.signals_.front();
      control_.signals_.pop_front();
      return first;
    }

   private:
    FakeControl& control_;
  };

  void happen() {
    while (!events_.empty() && events_.begin()->first <= clock_.now()) {
      const auto what = events_.extract(events_.begin());
      what.mapped()();
    }
  }
  static std::vector<bool> readable_now(std::span<const int> descriptors) {
    std::vector<pollfd> files;
    for (const int descriptor : descriptors)
      files.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
    if (::poll(files.data(), files.size(), 0) <= 0) return {};
    std::vector<bool> readable;
    for (const pollfd& file : files)
      readable.push_back(file.revents != 0);
    return readable;
  }
  std::vector<pid_t> children_of(pid_t parent) const {
    std::vector<pid_t> children;
    for (const auto& [pid, process] : processes_)
      if (process.ppid == parent) children.push_back(pid);
    return children;
  }
  void change(pid_t pid, const std::function<void(MadeUpProcess&)>& how) {
    MadeUpProcess& process = processes_.at(pid);
    how(process);
    files_.add(fmt::format("/proc/{}/stat", pid), stat_text(process));
  }
  void remove(pid_t pid) {
    const auto found = processes_.find(pid);
    if (found == processes_.end()) return;
    const pid_t parent = found->second.ppid;
    processes_.erase(found);
    files_.remove(fmt::format("/proc/{}", pid));
    if (processes_.contains(parent)) list_children(parent);
  }
  void list_children(pid_t parent) {
    std::string pids;
    for (const pid_t child : children_of(parent))
      pids += fmt::format("{} ", child);
    files_.add(fmt::format("/proc/{}/task/{}/children", parent, parent), pids);
  }

  FakeFiles& files_;
  FakeClock& clock_;
  UniqueFd news_;  ///< a signal waits
  std::shared_ptr<Access> access_;
  std::map<pid_t, MadeUpProcess> processes_;
  std::multimap<BootNs, std::function<void()>> events_;
  std::deque<signalfd_siginfo> signals_;
  pid_t next_pid_ = 100;
};

}  // namespace dlprobe
