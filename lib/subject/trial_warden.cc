#include "lib/subject/trial_warden.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "lib/base/parse.h"
#include "lib/os/disposable.h"
#include "lib/os/file_system.h"
#include "lib/os/pipe.h"
#include "lib/os/process_access.h"
#include "lib/subject/trial_leftovers.h"

namespace dlprobe {
namespace {

constexpr char kDismissal = 'd';
constexpr size_t kMostEnvironment = size_t{4} << 20U;

bool is_of_trial(const Directory& proc, pid_t pid, const std::string& folder) {
  const auto environment = proc.read(std::to_string(pid) + "/environ", kMostEnvironment);
  return pid != ::getpid() && environment && environment->contains(folder);
}

std::vector<pid_t> list_trial(const Directory& proc, const std::string& folder) {
  std::vector<pid_t> pids;
  for (const std::string& name : proc.list("").value_or(std::vector<std::string>())) {
    const auto pid = parse_int<pid_t>(name);
    if (pid && is_of_trial(proc, *pid, folder)) pids.push_back(*pid);
  }
  return pids;
}

bool send_signal(const UniqueFd& process, int number) {
  return ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0) == 0;
}

// First they are stopped, so that none makes a semaphore behind the look at it.
bool kill_all_of_trial(const Directory& proc, const std::string& folder, LostSemaphores& lost) {
  constexpr size_t kMostAtOnce = 200;
  constexpr useconds_t kUntilStopped = 2'000;
  std::vector<std::pair<pid_t, UniqueFd>> stopped;
  for (const pid_t pid : list_trial(proc, folder)) {
    // The pid means the same process from before this second look until the signal.
    auto process = SystemProcesses().open_pidfd(pid);
    if (process && is_of_trial(proc, pid, folder) && !is_resource_tracker(proc, pid) &&
        send_signal(*process, SIGSTOP)) {
      stopped.emplace_back(pid, std::move(*process));
    }
    if (stopped.size() == kMostAtOnce) break;
  }
  if (!stopped.empty()) ::usleep(kUntilStopped);
  for (const auto& [pid, process] : stopped) {
    lost.note(proc, pid);
    send_signal(process, SIGKILL);
  }
  return !stopped.empty();
}

// What starts another while it is looked for shows in the next round.
void end_trial(const std::string& folder) {
  constexpr int kQuietRounds = 3;
  constexpr int kMostRounds = 500;
  constexpr useconds_t kBetween = 10'000;
  const auto root = open_root("/");
  if (!root) return;
  const auto proc = (*root)->open_directory("proc");
  if (!proc) return;
  LostSemaphores lost;
  int quiet = 0;
  int round = 0;
  for (; round < kMostRounds && quiet < kQuietRounds; ++round) {
    quiet = kill_all_of_trial(**proc, folder, lost) ? 0 : quiet + 1;
    ::usleep(kBetween);
  }
  for (; round < kMostRounds && !list_trial(**proc, folder).empty(); ++round)
    ::usleep(kBetween);  // its resource trackers unlink what they know
  lost.remove(**root);
  remove_leftovers(folder);
  std::error_code ignored;  // nobody is left to be told
  std::filesystem::remove_all(folder, ignored);
  // Of root it is in one that others can reach (PrivateFolder).
  const std::filesystem::path outer = std::filesystem::path(folder).parent_path();
  if (outer.filename().native().starts_with("dlprobe-")) std::filesystem::remove(outer, ignored);
}

[[noreturn]] void keep_watch(int line, const std::string& folder) {
  ::setsid();
  ::prctl(PR_SET_NAME, "trial-warden");  // not what `pkill dlprobe` is meant for
  if (::dup2(line, 0) != 0 || ::chdir("/") != 0 || ::close_range(1, ~0U, 0) != 0) ::_exit(1);
  char word = 0;
  if (read_uninterrupted(0, &word, 1) == 0) end_trial(folder);
  ::_exit(0);
}

// While it is started orphans are not dlprobe's.
class NoOrphans {
 public:
  NoOrphans() {
    ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
  }
  ~NoOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }
  NoOrphans(const NoOrphans&) = delete;
  NoOrphans& operator=(const NoOrphans&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

Expected<TrialWarden> TrialWarden::start(const std::string& folder) {
  // Whose end ends the whole namespace; and it has all orphans.
  if (::getpid() == 1) return TrialWarden(UniqueFd(), folder);
  DLP_TRY(Pipe line, make_pipe());
  const NoOrphans orphans_go_elsewhere;
  const pid_t between = ::fork();
  if (between < 0) return os_failure("start a process");
  if (between == 0) {
    line.write_end.reset();
    const pid_t warden = ::fork();
    if (warden == 0) keep_watch(line.read_end.get(), folder);
    ::_exit(warden < 0 ? 1 : 0);
  }
  if (reap(between) != 0) return failure(ErrorCode::kIo, "start the process that cleans up");
  return TrialWarden(std::move(line.write_end), folder);
}

TrialWarden::~TrialWarden() {
  if (!line_) return;
  constexpr int kPatienceMs = 1000;
  // It may be gone: SIGPIPE is ignored in dlprobe.
  if (::write(line_.get(), &kDismissal, 1) != 1) return;
  pollfd end{.fd = line_.get(), .events = 0, .revents = 0};
  ::poll(&end, 1, kPatienceMs);  // POLLERR when it has closed its end
  remove_leftovers(folder_);
}

}  // namespace dlprobe
