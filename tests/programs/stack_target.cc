/// A program for tests of stacks and stops.
///
/// usage: stack_target MODE [THREADS]
///   block       threads wait on a condition variable
///   spin        threads count; a line of input is answered with "count N" of all of them
///   gaps        as block, and one measures its own pauses: "gap NS" is the longest since the last
///               line
///   nodump      as block with one thread, and not dumpable
///   exitmain    the main thread ends, another stays
///   namespace   a child in a pid namespace of its own waits for a mutex that another thread holds
///   clock       threads call clock_gettime for ever: in the vdso most of the time
///   vanish      threads map and unmap memory for ever, and a part of the stack of one that waits
///               comes and goes
///
/// It says "pid N" (of the process to look at) when it is ready and ends at the end of its input.

#include <pthread.h>
#include <sched.h>
#include <signal.h>  // NOLINT(modernize-deprecated-headers): kill is POSIX
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

std::atomic<uint64_t> counted{0};
std::atomic<int64_t> longest_gap{0};
std::atomic<int> ready{0};
std::mutex mutex;
std::condition_variable never;

void wait_for_ever() {
  std::unique_lock lock(mutex);
  ++ready;
  never.wait(lock, [] { return false; });
}

void count_for_ever() {
  ++ready;
  while (true)
    counted.fetch_add(1, std::memory_order_relaxed);
}

/// The gap between two looks at the clock is a pause of this thread, of whatever cause.
void measure_gaps() {
  ++ready;
  for (auto last = Clock::now();;) {
    const auto now = Clock::now();
    const int64_t gap = (now - last).count();
    last = now;
    if (gap > longest_gap.load(std::memory_order_relaxed)) longest_gap = gap;
    counted.fetch_add(1, std::memory_order_relaxed);
  }
}

void read_clock() {
  ++ready;
  while (Clock::now().time_since_epoch().count() != 0) {
  }
}

constexpr size_t kPage = 4096;
constexpr size_t kLostBytes = 4 * kPage;

void map_and_unmap() {
  constexpr size_t kBytes = 64 * kPage;
  ++ready;
  while (true) {
    void* memory =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) continue;
    static_cast<volatile char*>(memory)[kBytes / 2] = 1;
    ::mprotect(memory, kBytes / 4, PROT_NONE);
    ::munmap(memory, kBytes);
  }
}

std::atomic<std::byte*> lost{nullptr};

/// With `depth` frames of two pages each below it. The pages of the middle ones are those to lose:
/// not the last, of the wait, and not the first, near which the thread's own data is.
// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] void wait_deeply(int depth) {
  std::array<std::byte, 2 * kPage> room{};
  std::byte* volatile here = room.data();
  if (depth == 6) {
    std::byte* address = here;
    lost = address - reinterpret_cast<uintptr_t>(address) % kPage;  // NOLINT: to round it down
  }
  if (depth == 0) {
    ++ready;
    ::pause();
  } else {
    wait_deeply(depth - 1);
  }
  *here = std::byte{1};  // no tail call
}

[[noreturn]] void lose_stack() {
  while (true) {
    ::mprotect(lost, kLostBytes, PROT_NONE);
    std::this_thread::yield();
    ::mprotect(lost, kLostBytes, PROT_READ | PROT_WRITE);
    std::this_thread::yield();
  }
}

void say_ready(pid_t pid) {
  std::cout << "pid " << pid << std::endl;  // NOLINT(performance-avoid-endl): somebody waits for it
}

void start(int threads, void (*work)()) {
  for (int i = 0; i < threads; ++i)
    std::thread(work).detach();
  while (ready < threads)
    std::this_thread::yield();
}

/// Until the end of the input.
void answer() {
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << "count " << counted << " gap " << longest_gap.exchange(0) << std::endl;  // NOLINT
  }
}

void hold_mutex_in_namespace() {
  if (::unshare(CLONE_NEWPID) != 0) {
    say_ready(0);
    return;
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
    std::thread([] {
      ::pthread_mutex_lock(&held);
      wait_for_ever();
    }).detach();
    while (ready == 0)
      std::this_thread::yield();
    ::pthread_mutex_lock(&held);
    ::_exit(1);
  }
  say_ready(child);
  answer();
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

[[noreturn]] void end_main_thread() {
  std::thread([] {
    say_ready(::getpid());
    answer();
    ::_exit(0);
  }).detach();
  ::pthread_exit(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "block";
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  if (mode == "namespace") {
    hold_mutex_in_namespace();
    return 0;
  }
  if (mode == "exitmain") end_main_thread();
  if (mode == "nodump") ::prctl(PR_SET_DUMPABLE, 0);
  if (mode == "spin") {
    start(threads, count_for_ever);
  } else if (mode == "gaps") {
    start(1, measure_gaps);
    start(threads, wait_for_ever);
  } else if (mode == "clock") {
    start(threads, read_clock);
  } else if (mode == "vanish") {
    start(1, [] { wait_deeply(12); });
    start(2, map_and_unmap);
    std::thread(lose_stack).detach();
  } else {
    start(threads, wait_for_ever);
  }
  say_ready(::getpid());
  answer();
  ::_exit(0);  // the threads never end
}
