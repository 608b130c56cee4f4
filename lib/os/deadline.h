#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/error.h"
#include "lib/os/file_system.h"

namespace dlprobe {

/// Runs reads that may wait for a lock which the target holds: cmdline, environ, maps, smaps and
/// smaps_rollup, process_vm_readv take its mmap lock (facebook/below guards cmdline so too).
///
/// One helper thread does them, one at a time. A read past its limit is left to itself: the caller
/// gets kTimeout and goes on, and so does every later caller, at once, until that read has come
/// back. So there is never more than one stuck thread, and no loop waits longer than one limit.
/// Not thread-safe.
class DeadlineReader {
 public:
  explicit DeadlineReader(std::chrono::nanoseconds limit = std::chrono::milliseconds(20));
  /// Does not wait for a stuck read: its thread ends by itself when the kernel lets it go.
  ~DeadlineReader();
  DeadlineReader(const DeadlineReader&) = delete;
  DeadlineReader& operator=(const DeadlineReader&) = delete;
  DeadlineReader(DeadlineReader&&) = delete;
  DeadlineReader& operator=(DeadlineReader&&) = delete;

  /// The file's text, or kTimeout; kInsufficient where dlprobe may not start its helper thread.
  /// `extra` is added to the limit.
  Expected<std::string> read(const std::shared_ptr<const Directory>& directory,
                             const std::string& name, std::chrono::nanoseconds extra = {});

  /// What `job` gives, or kTimeout with `what` in the context. `job` must own (by shared_ptr or by
  /// value) all that it uses: it may outlive the caller. `extra` is added to the limit.
  template <class T>
  Expected<T> run(const std::string& what, std::function<Expected<T>()> job,
                  std::chrono::nanoseconds extra = {}) {
    const auto result = std::make_shared<Expected<T>>(failure(ErrorCode::kTimeout, what));
    DLP_CHECK(run_job(what, [result, job = std::move(job)] { *result = job(); }, extra));
    return std::move(*result);
  }

 private:
  struct Shared;
  Status run_job(const std::string& what, std::function<void()> job,
                 std::chrono::nanoseconds extra);

  std::chrono::nanoseconds limit_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace dlprobe
