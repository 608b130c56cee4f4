#include "lib/os/deadline.h"

#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <utility>

#include "lib/base/units.h"
#include "lib/os/thread_start.h"

namespace dlprobe {

/// What the caller and the helper share; the one that leaves last frees it.
struct DeadlineReader::Shared {
  std::mutex mutex;
  std::condition_variable wake_helper;
  std::condition_variable wake_caller;
  std::function<void()> job;  ///< not empty: to be done, or being done
  std::string what;           ///< the job's name
  bool started = false;       ///< there is a helper thread
  bool busy = false;          ///< a job was handed over and has not come back
  bool stop = false;
  std::exception_ptr thrown;  ///< what the job threw: no memory, no thread

  void serve() {
    std::unique_lock lock(mutex);
    while (true) {
      wake_helper.wait(lock, [this] { return stop || job; });
      if (stop) return;
      const std::function<void()> current = std::exchange(job, nullptr);
      lock.unlock();
      std::exception_ptr caught;
      try {
        current();
      } catch (...) {
        caught = std::current_exception();
      }
      lock.lock();
      thrown = std::move(caught);
      busy = false;
      wake_caller.notify_one();
    }
  }
};

DeadlineReader::DeadlineReader(std::chrono::nanoseconds limit)
    : limit_(limit), shared_(std::make_shared<Shared>()) {}

DeadlineReader::~DeadlineReader() {
  const std::scoped_lock lock(shared_->mutex);
  shared_->stop = true;
  shared_->wake_helper.notify_one();
}

Status DeadlineReader::run_job(const std::string& what, std::function<void()> job,
                               std::chrono::nanoseconds extra) {
  std::unique_lock lock(shared_->mutex);
  if (shared_->busy) {
    return failure(ErrorCode::kTimeout, what + ": not tried, still waiting for " + shared_->what);
  }
  if (!shared_->started) {
    DLP_TRY(std::jthread helper, start_thread(what, [shared = shared_] {
              // Signals are for the others: Ctrl-Z would go to this one while they may not be
              // stopped.
              sigset_t all;
              ::sigfillset(&all);
              ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
              shared->serve();
            }));
    // On purpose: a helper that hangs in the kernel cannot be joined.
    helper.detach();
    shared_->started = true;
  }
  shared_->job = std::move(job);
  shared_->what = what;
  shared_->busy = true;
  shared_->wake_helper.notify_one();
  const auto limit = limit_ + extra;
  if (shared_->wake_caller.wait_for(lock, limit, [this] { return !shared_->busy; })) {
    if (shared_->thrown) std::rethrow_exception(std::exchange(shared_->thrown, nullptr));
    return {};
  }
  return failure(ErrorCode::kTimeout,
                 what + ": no answer within " + format_duration(limit) +
                     " (the target's mmap lock is held, or the machine is busy)");
}

Expected<std::string> DeadlineReader::read(const std::shared_ptr<const Directory>& directory,
                                           const std::string& name,
                                           std::chrono::nanoseconds extra) {
  return run<std::string>(
      "read " + join_path(*directory, name), [directory, name] { return directory->read(name); },
      extra);
}

}  // namespace dlprobe
