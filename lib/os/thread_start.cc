#include "lib/os/thread_start.h"

#include <system_error>
#include <utility>

namespace dlprobe {

Expected<std::jthread> start_thread(const std::string& what, std::function<void()> work) {
  try {
    return std::jthread(std::move(work));
  } catch (const std::system_error& error) {
    return failure(ErrorCode::kInsufficient,
                   what + ": dlprobe may not start a thread (" + error.what() + "; see ulimit -u)");
  }
}

}  // namespace dlprobe
