#pragma once

#include <pthread.h>

#include <array>
#include <cstdint>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "tools/reference_loader/tensors.h"

namespace dlprobe::loader {

/// What the main process sends to a worker, followed by `samples` image numbers (uint32_t).
struct TaskHeader {
  int32_t epoch = 0;
  int32_t index = 0;            ///< of the batch within the epoch
  uint64_t first_position = 0;  ///< of its first sample within the epoch
  uint32_t samples = 0;
  uint32_t unused = 0;
};

enum class ResultKind : uint32_t { kBatch, kFailed, kBrokenImage };

/// What a worker sends to the main process. Fits into PIPE_BUF, so a pipe takes it whole or not at
/// all even if the worker is killed in the middle.
struct ResultMessage {
  ResultKind kind = ResultKind::kBatch;
  int32_t worker = 0;
  int32_t epoch = 0;
  int32_t index = 0;
  uint32_t samples = 0;
  uint32_t image = 0;  ///< of kBrokenImage
  uint64_t key = 0;    ///< by which the worker's sharer knows the descriptors
  double fetch_s = 0;
  std::array<uint64_t, kSegmentsPerBatch> segment_bytes{};  ///< payload
  std::array<std::array<char, 64>, kSegmentsPerBatch> segment_names{};
  std::array<char, 1024> text{};  ///< of kFailed and kBrokenImage
};

/// The result queue's writing side: one pipe that all workers share, and a lock on it that survives
/// the death of its holder (a robust mutex; multiprocessing.Queue has a semaphore that does not).
class ResultWriter {
 public:
  /// Takes the pipe's write end and the lock's file; see make_lock_file().
  static Expected<ResultWriter> open(int pipe, int lock_file);
  Status write(const ResultMessage& message) const;

 private:
  ResultWriter(int pipe, pthread_mutex_t* lock) : pipe_(pipe), lock_(lock) {}
  int pipe_;
  pthread_mutex_t* lock_;
};

/// What becomes of a lock in shared memory whose holder dies.
enum class HolderDeath {
  kIsTold,       ///< to the next one, who then has it (a robust mutex)
  kIsForgotten,  ///< it stays taken for ever
};

/// A file in memory with the lock in it, ready to be used.
Expected<UniqueFd> make_lock_file(HolderDeath death);

/// The lock in such a file, mapped for as long as this process lives.
Expected<pthread_mutex_t*> map_lock(int file);

}  // namespace dlprobe::loader
