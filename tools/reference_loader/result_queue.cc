#include "tools/reference_loader/result_queue.h"

#include <sys/mman.h>
#include <unistd.h>

#include <climits>

#include "tools/reference_loader/ipc.h"

namespace dlprobe::loader {

static_assert(sizeof(ResultMessage) <= PIPE_BUF);

Expected<pthread_mutex_t*> map_lock(int file) {
  void* page = mmap(nullptr, sizeof(pthread_mutex_t), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) return os_failure("map a lock in shared memory");
  return static_cast<pthread_mutex_t*>(page);
}

Expected<ResultWriter> ResultWriter::open(int pipe, int lock_file) {
  DLP_TRY(pthread_mutex_t* const lock, map_lock(lock_file));
  return ResultWriter(pipe, lock);
}

Status ResultWriter::write(const ResultMessage& message) const {
  const int locked = pthread_mutex_lock(lock_);
  // The holder was killed. Its message is in the pipe whole or not at all.
  if (locked == EOWNERDEAD) pthread_mutex_consistent(lock_);
  const Status written = write_all(pipe_, bytes_of(message));
  pthread_mutex_unlock(lock_);
  return written;
}

Expected<UniqueFd> make_lock_file(HolderDeath death) {
  DLP_TRY(UniqueFd file, make_memory_file("dlprobe-lock"));
  if (ftruncate(file.get(), sizeof(pthread_mutex_t)) != 0) {
    return os_failure("make a lock in shared memory");
  }
  DLP_TRY(pthread_mutex_t* const lock, map_lock(file.get()));
  pthread_mutexattr_t attributes{};
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  if (death == HolderDeath::kIsTold) {
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  }
  pthread_mutex_init(lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  munmap(lock, sizeof(pthread_mutex_t));
  return file;
}

}  // namespace dlprobe::loader
