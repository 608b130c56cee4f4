#include "lib/session/process_control.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <utility>

#include "lib/base/units.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/subject/trial_warden.h"

namespace dlprobe {
namespace {

class SystemSignals final : public HeldSignals {
 public:
  SystemSignals() {
    sigemptyset(&mask_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD})
      sigaddset(&mask_, signal);
    ::pthread_sigmask(SIG_BLOCK, &mask_, &old_mask_);
    fd_.reset(::signalfd(-1, &mask_, SFD_NONBLOCK | SFD_CLOEXEC));
  }
  ~SystemSignals() override {
    // What came while we were ending has been taken care of; delivering it now would hide the
    // report.
    while (take()) {
    }
    ::pthread_sigmask(SIG_SETMASK, &old_mask_, nullptr);
  }
  SystemSignals(const SystemSignals&) = delete;
  SystemSignals& operator=(const SystemSignals&) = delete;

  int descriptor() const override { return fd_.get(); }
  std::optional<signalfd_siginfo> next() const override { return take(); }

 private:
  std::optional<signalfd_siginfo> take() const {
    if (!fd_) return take_without_descriptor();
    signalfd_siginfo signal = {};
    if (::read(fd_.get(), &signal, sizeof signal) != sizeof signal) return std::nullopt;
    return signal;
  }

  // Where no descriptor is left nothing wakes dlprobe, but it sees a signal when it next looks.
  std::optional<signalfd_siginfo> take_without_descriptor() const {
    constexpr timespec kNoTime{};
    siginfo_t info{};
    if (::sigtimedwait(&mask_, &info, &kNoTime) <= 0) return std::nullopt;
    return signalfd_siginfo{.ssi_signo = static_cast<uint32_t>(info.si_signo),
                            .ssi_code = info.si_code};
  }

  sigset_t mask_ = {};
  sigset_t old_mask_ = {};
  UniqueFd fd_;
};

// Where ppoll(2) itself fails (no memory, a limit of descriptors), all are to be read: none of them
// blocks. The rest keeps a call that fails again and again from taking a whole CPU.
void ready_for_all(std::span<pollfd> files, BootNs longest) {
  const timespec rest = {.tv_sec = 0, .tv_nsec = std::min(longest, 10 * kMillisecond)};
  ::nanosleep(&rest, nullptr);
  for (pollfd& file : files)
    file.revents = file.fd < 0 ? 0 : POLLIN;
}

}  // namespace

pid_t SystemControl::own_pid() const {
  return ::getpid();
}

Expected<pid_t> SystemControl::start(const ChildSpec& spec) {
  return start_child(spec);
}

std::optional<EndedChild> SystemControl::next_ended_child() {
  return dlprobe::next_ended_child();
}

bool SystemControl::has_children() {
  return dlprobe::has_children();
}

void SystemControl::reap(const EndedChild& child) {
  dlprobe::reap(child);
}

void SystemControl::signal(pid_t pid, int signal) {
  ::kill(pid, signal);
}

void SystemControl::signal_by_pidfd(const UniqueFd& pidfd, int signal) {
  ::syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0);
}

Expected<std::shared_ptr<void>> SystemControl::guard_trial(const std::string& folder) {
  DLP_TRY(TrialWarden warden, TrialWarden::start(folder));
  return std::make_shared<TrialWarden>(std::move(warden));
}

std::unique_ptr<HeldSignals> SystemControl::hold_signals() {
  return std::make_unique<SystemSignals>();
}

std::vector<bool> SystemControl::wait(std::span<const int> descriptors, BootNs longest) {
  std::vector<pollfd> files;
  files.reserve(descriptors.size());
  for (const int descriptor : descriptors)
    files.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  const timespec timeout = {.tv_sec = longest / kSecond, .tv_nsec = longest % kSecond};
  const int ready = ::ppoll(files.data(), files.size(), &timeout, nullptr);
  if (ready == 0) return {};
  if (ready < 0) ready_for_all(files, longest);
  std::vector<bool> readable;
  readable.reserve(files.size());
  for (const pollfd& file : files)
    readable.push_back(file.revents != 0);
  return readable;
}

void forward_signal(ProcessControl& control, const signalfd_siginfo& signal, pid_t child) {
  const auto number = static_cast<int>(signal.ssi_signo);
  // The kernel sends the keys' signals to the whole foreground group, but a hang-up of the terminal
  // to the leader of its session alone.
  const bool is_for_leader = number == SIGHUP && ::getsid(0) == ::getpid();
  if (signal.ssi_code != SI_KERNEL || is_for_leader) control.signal(child, number);
}

void signal_process(ProcessControl& control, const Machine& machine, const ProcessKey& key,
                    int signal) {
  const auto pidfd = machine.processes->open_pidfd(key.pid);
  // Opened first: what has that start time now is what the pidfd stands for.
  if (!pidfd || process_key(machine, key.pid) != key) return;
  control.signal_by_pidfd(*pidfd, signal);
}

void reap_ended_children(ProcessControl& control) {
  while (const auto ended = control.next_ended_child())
    control.reap(*ended);
}

Expected<ProcessKey> start_process(ProcessControl& control, const Machine& machine,
                                   const ChildSpec& spec) {
  DLP_TRY(const pid_t pid, control.start(spec));
  return process_key(machine, pid);
}

}  // namespace dlprobe
