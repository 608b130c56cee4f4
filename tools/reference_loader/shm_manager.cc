#include "tools/reference_loader/shm_manager.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <deque>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/reference_loader/ipc.h"
#include "tools/reference_loader/signals.h"

namespace dlprobe::loader {
namespace {

// libshm/manager.cpp: SHUTDOWN_TIMEOUT.
constexpr int kLingerMs = 2000;

enum class Operation : char { kMade = '+', kFreed = '-', kConnect = 'c', kQuit = 'q' };

struct Request {
  Operation operation = Operation::kMade;
  std::array<char, 63> name{};
};

Request make_request(Operation operation, std::string_view name) {
  Request request{.operation = operation};
  std::memcpy(request.name.data(), name.data(), std::min(name.size(), request.name.size() - 1));
  return request;
}

/// The manager process: one loop, no threads.
class Manager {
 public:
  explicit Manager(UniqueFd first) { clients_.push_back(std::move(first)); }

  void run() {
    while (!quit_) {
      std::vector<pollfd> entries;
      entries.reserve(clients_.size());
      for (const UniqueFd& client : clients_) {
        entries.push_back({.fd = client.get(), .events = POLLIN, .revents = 0});
      }
      const int ready = poll(entries.data(), entries.size(), clients_.empty() ? kLingerMs : -1);
      if (ready == 0) break;
      if (ready > 0) serve(entries);
    }
    for (const auto& [name, count] : names_) {
      if (count > 0) shm_unlink(name.c_str());
    }
  }

 private:
  void serve(const std::vector<pollfd>& entries) {
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].revents != 0) take_request(clients_[i]);
    }
    std::erase_if(clients_, [](const UniqueFd& client) { return !client; });
  }

  void take_request(UniqueFd& client) {
    Request request;
    auto received = receive_with_fds(client.get(), writable_bytes_of(request));
    // A dead client's requests are all read before the end of file comes.
    if (!received || received->size != sizeof request) {
      client.reset();
      return;
    }
    const std::string name = request.name.data();
    switch (request.operation) {
      case Operation::kMade:
        count(name, 1);
        break;
      case Operation::kFreed:
        count(name, -1);
        break;
      case Operation::kConnect:
        for (UniqueFd& fd : received->fds)
          clients_.push_back(std::move(fd));
        break;
      case Operation::kQuit:
        quit_ = true;
        break;
    }
  }

  // Maker and freer have different sockets, so "freed" may be read before "made".
  void count(const std::string& name, int change) {
    const auto entry = names_.try_emplace(name, 0).first;
    entry->second += change;
    if (entry->second == 0) names_.erase(entry);
  }

  std::deque<UniqueFd> clients_;  // references into it survive push_back
  std::map<std::string, int> names_;
  bool quit_ = false;
};

[[noreturn]] void run_manager(int socket) {
  setsid();
  set_process_name("dlp-shm-manager");
  for (const int number : {SIGINT, SIGHUP, SIGTERM})
    signal(number, SIG_IGN);
  close_all_except({socket});
  use_null_stdio();
  Manager(UniqueFd(socket)).run();
  _exit(0);
}

}  // namespace

Status ShmManagerClient::will_make(const std::string& name) const {
  return send_with_fds(socket_, bytes_of(make_request(Operation::kMade, name)), {});
}

void ShmManagerClient::has_freed(const std::string& name) const {
  [[maybe_unused]] const Status sent =
      send_with_fds(socket_, bytes_of(make_request(Operation::kFreed, name)), {});
}

Expected<std::unique_ptr<ShmManager>> ShmManager::start() {
  DLP_TRY(auto sockets, make_socket_pair(SOCK_SEQPACKET));
  const pid_t pid = fork();
  if (pid < 0) return os_failure("fork the manager of shared memory");
  if (pid == 0) run_manager(sockets.second.release());
  return std::unique_ptr<ShmManager>(new ShmManager(pid, std::move(sockets.first)));
}

ShmManager::~ShmManager() {
  [[maybe_unused]] const Status sent =
      send_with_fds(socket_.get(), bytes_of(make_request(Operation::kQuit, "")), {});
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Expected<UniqueFd> ShmManager::connect() const {
  DLP_TRY(auto sockets, make_socket_pair(SOCK_SEQPACKET));
  const std::array fds = {sockets.second.get()};
  DLP_CHECK(send_with_fds(socket_.get(), bytes_of(make_request(Operation::kConnect, "")), fds));
  return std::move(sockets.first);
}

}  // namespace dlprobe::loader
