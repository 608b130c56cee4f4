#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"

namespace dlprobe::loader {

/// Tells the manager about segments; each process that makes or frees some has one.
class ShmManagerClient {
 public:
  explicit ShmManagerClient(int socket) : socket_(socket) {}
  /// To be called before the segment is made, so that it is known even if this process dies at
  /// once.
  Status will_make(const std::string& name) const;
  /// The segment has been unlinked. Failing is harmless: the manager unlinks what is not there.
  void has_freed(const std::string& name) const;

 private:
  int socket_;
};

/// The process that unlinks the named segments of dead processes: torch_shm_manager's design.
///
/// It lives in its own session, knows every client by a socket and every segment by its name, and 2
/// s after its last client is gone it unlinks what is left and ends. Unlike PyTorch's, there is one
/// per loader rather than one per worker, it needs no socket file, and the main process ends it at
/// once.
class ShmManager {
 public:
  /// Forks it. To be called while this process has no other thread and nothing to inherit.
  static Expected<std::unique_ptr<ShmManager>> start();
  ~ShmManager();
  ShmManager(const ShmManager&) = delete;
  ShmManager& operator=(const ShmManager&) = delete;

  pid_t pid() const { return pid_; }
  /// Becomes readable only if the manager is gone.
  int socket() const { return socket_.get(); }
  /// A socket for a new client process.
  Expected<UniqueFd> connect() const;
  ShmManagerClient client() const { return ShmManagerClient(socket_.get()); }

 private:
  ShmManager(pid_t pid, UniqueFd socket) : pid_(pid), socket_(std::move(socket)) {}
  pid_t pid_;
  UniqueFd socket_;
};

}  // namespace dlprobe::loader
