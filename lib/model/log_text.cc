#include "lib/model/log_text.h"

#include <algorithm>
#include <array>

namespace dlprobe {
namespace {

using enum FindingCode;

constexpr std::array kShm = {kShmExhausted, kShmTooSmall, kShmInodesExhausted};
constexpr std::array kForked = {kForkInheritedLock, kForkLostThreadPool, kPythonLockInherited,
                                kForkUnsafeLibraryLoaded};
constexpr std::array kLeakedSemaphoreCodes = {kLeakedSemaphores};
constexpr std::array kBusErrors = {kShmExhausted, kShmTooSmall, kBusErrorOnFileMapping};
constexpr std::array kDescriptors = {kFdLimitTooLow, kFdExhausted, kBatchesKeptByConsumer,
                                     kFdLeakInWorker};
constexpr std::array kMappings = {kMemoryMapLimitReached, kShmExhausted};
constexpr std::array kRefused = {kForkRefusedByOvercommit, kMemoryMapLimitReached};
constexpr std::array kKilled = {kOomKilledByCgroup, kOomKilledByHost, kKilledBySignal};
constexpr std::array kHungUp = {kSessionHangup, kKilledBySignal};
constexpr std::array kCrashed = {kWorkerCrashed};
constexpr std::array kExited = {kWorkerExited,    kWorkerCrashed,  kOomKilledByCgroup,
                                kOomKilledByHost, kKilledBySignal, kSessionHangup};

// torch/utils/data/_utils/signal_handling.py, torch/csrc/DataLoader.cpp, aten/src/ATen/
// MapAllocator.cpp (1.13 to 2.13); CPython's Lib/multiprocessing/resource_tracker.py and
// Modules/posixmodule.c (3.12 on).
constexpr std::array kTexts = {
    KnownText{"Unexpected bus error encountered in worker", kBusErrors},
    KnownText{"is killed by signal: Bus error", kBusErrors},
    KnownText{"Unexpected segmentation fault encountered in worker", kCrashed},
    KnownText{"Unexpected floating-point exception encountered in worker", kCrashed},
    KnownText{"is killed by signal: Segmentation fault", kCrashed},
    KnownText{"is killed by signal: Aborted", kCrashed},
    KnownText{"is killed by signal: Floating point exception", kCrashed},
    KnownText{"is killed by signal: Killed", kKilled},
    KnownText{"is killed by signal: Terminated", kKilled},
    KnownText{"is killed by signal: Hangup", kHungUp},
    KnownText{"exited unexpectedly", kExited},
    KnownText{"items of ancdata", kDescriptors},
    KnownText{"Too many open files", kDescriptors},
    KnownText{"unable to mmap", kMappings},
    KnownText{"[Errno 12] Cannot allocate memory", kRefused},
    KnownText{"unable to allocate shared memory(shm) for file", kShm},
    KnownText{"unable to write to file </torch_", kShm},
    KnownText{"is multi-threaded, use of fork() may lead to deadlocks in the child", kForked},
    KnownText{"resource_tracker: There appear to be", kLeakedSemaphoreCodes},
};

}  // namespace

const KnownText* find_known_text(std::string_view line) {
  const auto found = std::ranges::find_if(
      kTexts, [line](const KnownText& known) { return line.contains(known.text); });
  return found == kTexts.end() ? nullptr : &*found;
}

}  // namespace dlprobe
