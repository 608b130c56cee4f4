#include "tools/reference_loader/hang.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <latch>
#include <mutex>

#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/result_queue.h"
#include "tools/reference_loader/signals.h"
#include "tools/reference_loader/tensors.h"

namespace dlprobe::loader {
namespace {

/// A lock as a native library keeps one, for all its threads. fork copies it as it is.
std::mutex& library_lock() {
  static std::mutex lock;
  return lock;
}

void take_library_lock() {
  const std::scoped_lock lock(library_lock());
}

// Each of two threads has one lock and wants the other's.
void take_locks_in_a_circle() {
  std::mutex first;
  std::mutex second;
  std::latch both_have_one(2);
  const auto take = [&both_have_one](std::mutex& own, std::mutex& other) {
    const std::scoped_lock has(own);
    both_have_one.arrive_and_wait();
    const std::scoped_lock wants(other);
  };
  std::thread other([&] { take(second, first); });
  take(first, second);
  other.join();
}

Status take_dead_lock(int file) {
  DLP_TRY(pthread_mutex_t* const lock, map_lock(file));
  pthread_mutex_lock(lock);
  return {};
}

// The classic way: fork gives the writer's end to the reader, too, and it forgets to close it. So
// no end of file comes when the writer dies.
Status read_without_writer() {
  DLP_TRY(const Pipe pipe, make_pipe());
  const pid_t writer = fork();
  if (writer < 0) return os_failure("fork a process for the fault");
  if (writer == 0) raise(SIGKILL);
  waitpid(writer, nullptr, 0);
  std::array<std::byte, 1> data{};
  DLP_TRY([[maybe_unused]] const ReadOutcome outcome, read_whole(pipe.read_end.get(), data));
  return {};
}

}  // namespace

HangPreparation::HangPreparation(const FaultEffects& effects) {
  if (effects.kind == FaultKind::kForkLostThreadPool) use_torch_pool();
  if (effects.kind != FaultKind::kForkInheritedLock) return;
  std::latch is_held(1);
  holder_ = std::thread([this, &is_held] {
    const std::scoped_lock lock(library_lock());
    is_held.count_down();
    ends_.wait(false);
  });
  is_held.wait();
}

HangPreparation::~HangPreparation() {
  if (!holder_.joinable()) return;
  ends_ = true;
  ends_.notify_all();
  holder_.join();
}

Status hang_in_worker(const FaultEffects& effects, int dead_lock) {
  switch (effects.kind) {
    case FaultKind::kForkInheritedLock:
      take_library_lock();
      return {};
    case FaultKind::kForkLostThreadPool:
      use_torch_pool();
      return {};
    case FaultKind::kLockCycle:
      take_locks_in_a_circle();
      return {};
    case FaultKind::kLockHolderDead:
      return take_dead_lock(dead_lock);
    case FaultKind::kPipeWithoutPeer:
      return read_without_writer();
    case FaultKind::kSlowSample:
      std::this_thread::sleep_for(effects.as<Hang>()->sample_time);
      return {};
    default:
      return {};
  }
}

void hang_in_training_loop() {
  while (stop_signal() == 0)
    becomes_readable(stop_fd(), -1);
}

}  // namespace dlprobe::loader
