#include "tools/reference_loader/death.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "lib/base/units.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

void write_to_no_memory() {
  int* volatile nowhere = nullptr;
  *nowhere = 1;  // NOLINT(clang-analyzer-core.NullDereference)
}

void divide_by_zero() {
  const volatile int zero = 0;
  volatile int result = 1;
  result = result / zero;  // NOLINT(clang-analyzer-core.DivideZero)
  // Not every processor traps it.
  raise(SIGFPE);
}

// As real code does that crashes: by what it does, not by a signal that it sends.
void crash(int signal) {
  if (signal == SIGABRT) abort();
  if (signal == SIGFPE) divide_by_zero();
  write_to_no_memory();
}

// Slow enough for whoever watches to see it coming. Nothing is given back: the process ends.
Status take_memory(uint64_t bytes) {
  constexpr uint64_t kPiece = 4 * kMiB;
  for (uint64_t taken = 0; taken < bytes; taken += kPiece) {
    void* piece = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) return os_failure("the fault takes memory: mmap");
    std::memset(piece, 1, kPiece);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return failure(ErrorCode::kIo,
                 "the fault took " + format_bytes(bytes) +
                     " of memory and nobody ended it: the loader is not in a cgroup "
                     "with that limit");
}

}  // namespace

Status die_in_worker(const FaultEffects& effects) {
  const auto* death = effects.as<Death>();
  if (death == nullptr) return {};
  std::this_thread::sleep_for(kTimeToBeKnown);
  switch (effects.kind) {
    case FaultKind::kWorkerCrashed:
      crash(death->signal);
      return {};
    case FaultKind::kWorkerExited:
      _exit(death->exit_code);
    case FaultKind::kOomKilledByCgroup:
      return take_memory(death->grow_bytes);
    default:
      return {};
  }
}

Expected<pid_t> have_another_process_kill(pid_t pid, int signal) {
  const pid_t sender = fork();
  if (sender < 0) return os_failure("fork a process for the fault");
  if (sender == 0) {
    set_process_name("other-process");
    _exit(kill(pid, signal) == 0 ? 0 : 1);
  }
  waitpid(sender, nullptr, 0);
  return sender;
}

}  // namespace dlprobe::loader
