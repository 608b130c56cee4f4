#pragma once

#include <unistd.h>

#include <utility>

namespace dlprobe {

/// Owns one file descriptor and closes it. Never converts to int by itself.
class UniqueFd {
 public:
  UniqueFd() = default;
  /// Takes ownership of `fd`; -1 is "none".
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  /// Gives up ownership.
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    // close(2) is never retried: on Linux the descriptor is gone even on EINTR.
    if (const int old = std::exchange(fd_, fd); old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace dlprobe
