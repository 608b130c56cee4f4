#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "tools/reference_loader/image_source.h"

namespace dlprobe::loader {

/// The descriptors that a worker process works with, by their place in WorkerState::fds.
enum WorkerFd : size_t {
  kTasks,       ///< the index queue's read end
  kResults,     ///< the result queue's write end, shared by all workers
  kResultLock,  ///< see make_lock_file()
  kSharer,      ///< the main process asks here for the descriptors of a batch (file_descriptor)
  kManager,     ///< to the shm manager (file_system)
  kImages,      ///< the built-in images
  kDeadLock,    ///< a lock that nobody gives back (for a fault); see make_lock_file()
  kProgress,    ///< progress lines of how processes start (for a fault of starts)
  kTokens,      ///< one byte for each process that may still be started (for a fault of starts)
  kWorkerFdCount,
};

/// Everything that a worker process needs to know. Handed over by fork, or as CBOR.
struct WorkerState {
  std::vector<std::string> args;  ///< the loader's command line
  int worker = 0;
  uint32_t random = 0;  ///< of the segments' names
  std::array<int, kWorkerFdCount> fds = {-1, -1, -1, -1, -1, -1, -1, -1, -1};
  ImageSource images;  ///< its file, if any, is fds[kImages]
  int generation = 1;  ///< how many starts it is away from the program that the user started
  /// The dataset's lock (for a fault): in the memory of the process that starts the worker, so that
  /// only a forked one has it. Null: it has none.
  std::mutex* lock = nullptr;
};

/// A part of a worker's state that cannot be sent to another program, with the words of a report.
struct UnsendablePart {
  std::string path;  ///< "dataset.lock"
  std::string type;  ///< "std::mutex"
};
std::optional<UnsendablePart> unsendable_part(const WorkerState& state);

/// For a process that was not forked with the state in its memory. The descriptors' numbers are
/// part of it. kUnsupported where a part of it cannot be sent.
Expected<std::vector<uint8_t>> encode_state(const WorkerState& state);
/// The images lack their file: ImageSource::share() gives it to them once the descriptors' numbers
/// are right. Throws nlohmann's exceptions on what encode_state never makes.
WorkerState decode_state(const std::vector<uint8_t>& bytes);

/// Is a worker until the index queue ends. Returns the exit status.
int run_worker(WorkerState state);

}  // namespace dlprobe::loader
