// What sampling costs: each process-sample (stat + statm, read and parsed into a record) against
// bare pread calls of the same kept files, and against psutil (tests/bench/sampling_cost.py, if it
// is there); and the CPU time of a 10 Hz watch of a tree. Prints ratios; they are the figures.
//
// usage: sampling_cost [PROCESSES [SECONDS]]
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>  // NOLINT(modernize-deprecated-headers): clock_nanosleep is POSIX
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "lib/base/unique_fd.h"
#include "lib/collect/tree/process_tree.h"
#include "lib/collect/tree/tracked_process.h"
#include "lib/collect/tree_collector.h"

namespace dlprobe {
namespace {

constexpr int kRounds = 300;
constexpr double kNsPerUs = 1000;
constexpr double kNsPerSecond = 1e9;

class Discard final : public RecordSink {
 public:
  void add(Record /*record*/) override {}
};

constexpr int kDescriptorsOfChild = 60;

/// Opens and closes a file for ever, so that its descriptors are counted anew each second.
[[noreturn]] void be_child() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < kDescriptorsOfChild; ++i)
    if (::open("/dev/null", O_RDONLY | O_CLOEXEC) < 0) ::_exit(1);
  constexpr useconds_t kPauseUs = 700'000;
  for (;;) {
    ::usleep(kPauseUs);
    const int fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::usleep(kPauseUs);
    ::close(fd);
  }
}

/// A parent with so many children, ended and reaped with the object.
class Tree {
 public:
  explicit Tree(int processes) {
    std::array<int, 2> ready{};
    if (::pipe2(ready.data(), O_CLOEXEC) != 0) return;
    root_ = ::fork();
    if (root_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (int i = 1; i < processes; ++i) {
        if (::fork() == 0) be_child();
      }
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      while (::wait(nullptr) > 0 || errno == EINTR) {
      }
      ::_exit(0);
    }
    char byte = 0;
    if (::read(ready[0], &byte, 1) != 1) std::abort();
    ::close(ready[0]);
    ::close(ready[1]);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;
  ~Tree() {
    ::kill(root_, SIGKILL);
    ::waitpid(root_, nullptr, 0);
  }
  pid_t root() const { return root_; }

 private:
  pid_t root_ = -1;
};

double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * kNsPerSecond + static_cast<double>(now.tv_nsec);
}

template <class Work>
double ns_of(Work work) {
  const double before = cpu_ns();
  for (int i = 0; i < kRounds; ++i)
    work();
  return (cpu_ns() - before) / kRounds;
}

double bare_reads(const std::vector<ProcessKey>& keys) {
  std::vector<UniqueFd> fds;
  for (const ProcessKey& key : keys) {
    for (const char* name : {"stat", "statm"}) {
      const std::string path = fmt::format("/proc/{}/{}", key.pid, name);
      fds.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    }
  }
  std::array<char, 2048> buffer;
  ssize_t bytes = 0;
  const double ns = ns_of([&] {
    for (const UniqueFd& fd : fds)
      bytes += ::pread(fd.get(), buffer.data(), buffer.size(), 0);
  });
  return bytes > 0 ? ns : 0;
}

/// CPU time of a watch at 10 Hz, as a share of one core.
double watch_share(const Machine& machine, const ProcessKey& root, double seconds) {
  Discard sink;
  TreeCollector collector(machine, root, {}, sink);
  collector.tick();  // opening all files is paid once
  const double before = cpu_ns();
  const BootNs start = machine.clock->now();
  const auto end = start + static_cast<BootNs>(seconds * kNsPerSecond);
  while (machine.clock->now() < end) {
    const BootNs next = collector.tick();
    const timespec until{.tv_sec = next / 1'000'000'000, .tv_nsec = next % 1'000'000'000};
    ::clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, nullptr);
  }
  return (cpu_ns() - before) / static_cast<double>(machine.clock->now() - start);
}

int run(int processes, double seconds) {
  const Tree tree(processes);
  const auto machine = live_machine();
  const auto root =
      machine ? process_key(*machine, tree.root()) : failure(ErrorCode::kIo, "no machine");
  if (!root) {
    fmt::print(stderr, "sampling_cost: {}\n", to_string(root.error()));
    return 1;
  }
  DeadlineReader reader;
  ProcessTree members(*machine, *root, 0);
  members.discover(reader);
  std::vector<ProcessKey> keys;
  for (const auto& [key, process] : members.members())
    keys.push_back(key);
  const double bare = bare_reads(keys);
  const double ours = ns_of([&] { members.sample(reader, true); });
  const auto count = static_cast<double>(keys.size());
  fmt::print("processes {}\n", keys.size());
  fmt::print("bare pread of stat and statm: {:.2f} us per process\n", bare / count / kNsPerUs);
  fmt::print("sample:                       {:.2f} us per process\n", ours / count / kNsPerUs);
  fmt::print("ratio to bare reads:          {:.2f} (goal <= 1.5)\n", ours / bare);
  std::fflush(stdout);
  const std::string peer =
      fmt::format("{} {} {}", DLPROBE_PYTHON, DLPROBE_PSUTIL_LOOP, tree.root());
  if (std::FILE* output = ::popen(peer.c_str(), "r"); output != nullptr) {  // NOLINT(cert-env33-c)
    std::array<char, 128> line{};
    const bool answered = std::fgets(line.data(), line.size(), output) != nullptr;
    const double theirs = answered ? parse_double(trim(line.data())).value_or(0) : 0;
    ::pclose(output);
    if (theirs > 0) {
      fmt::print("psutil (oneshot):             {:.2f} us per process\n", theirs);
      fmt::print("psutil to sample:             {:.1f} x (goal >= 8)\n",
                 theirs / (ours / count / kNsPerUs));
    } else {
      fmt::print("psutil: not there (Debian: python3-psutil)\n");
    }
  }
  fmt::print("watch at 10 Hz:               {:.2f} % of a core (goal <= 1)\n",
             100 * watch_share(*machine, *root, seconds));
  return 0;
}

}  // namespace
}  // namespace dlprobe

int main(int argc, char** argv) {
  const int processes = argc > 1 ? std::atoi(argv[1]) : 64;
  const double seconds = argc > 2 ? std::atof(argv[2]) : 10;
  return dlprobe::run(processes, seconds);
}
