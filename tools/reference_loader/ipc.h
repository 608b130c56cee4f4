#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/unique_fd.h"
#include "lib/os/file_system.h"
#include "lib/os/pipe.h"

namespace dlprobe::loader {

/// A connected pair of unix sockets of that type (SOCK_STREAM, SOCK_SEQPACKET), closed on exec.
Expected<std::pair<UniqueFd, UniqueFd>> make_socket_pair(int type);

/// A nameless file in memory that is outside of /dev/shm, closed on exec; `name` is for /proc only.
Expected<UniqueFd> make_memory_file(const char* name);

/// Writes all of it, however many calls that takes.
Status write_all(int fd, std::span<const std::byte> bytes);
Status write_all(int fd, std::string_view text);

enum class ReadOutcome {
  kWhole,
  kEndOfFile,  ///< the other side has closed, and nothing had been read
};
/// Fills `bytes`. An end of file in the middle is kMalformed.
Expected<ReadOutcome> read_whole(int fd, std::span<std::byte> bytes);

/// The bytes of a plain struct, to be sent to a process of the same program.
template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_bytes(std::span(&value, 1));
}
template <class T>
std::span<std::byte> writable_bytes_of(T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return std::as_writable_bytes(std::span(&value, 1));
}

/// Sends `bytes` with `fds` (SCM_RIGHTS) in one call of sendmsg. `bytes` must fit into the socket.
Status send_with_fds(int socket, std::span<const std::byte> bytes, std::span<const int> fds);

/// What came in one call of recvmsg. `size` 0: the other side has closed.
struct ReceivedMessage {
  size_t size = 0;
  std::vector<UniqueFd> fds;
};
/// kInsufficient if descriptors were lost, which is what the kernel does at RLIMIT_NOFILE.
Expected<ReceivedMessage> receive_with_fds(int socket, std::span<std::byte> into);

/// Whether `fd` has something to read (or has ended) within that time; -1: whenever that is. A
/// signal ends the wait.
bool becomes_readable(int fd, int limit_ms);

/// Waits until `fd` has something to read (or has ended). Asks `give_up` ten times a second.
/// kTimeout when it says so, or after `limit`.
Status wait_readable(int fd, std::chrono::milliseconds limit, const std::function<bool()>& give_up);

/// Closes every descriptor from 3 on except `keep`: what a forked child must not hold on to, so
/// that an end of file still means that its peer is gone.
void close_all_except(std::vector<int> keep);

/// Connects stdin, stdout and stderr to /dev/null: whoever reads the loader's output waits for its
/// end, and must not wait for a helper process that outlives it.
void use_null_stdio();

/// What `parse` makes of a file below /proc.
template <class Parse>
auto read_proc(const std::string& name, Parse parse) -> decltype(parse(std::string_view())) {
  DLP_TRY(const auto root, open_root("/"));
  return chain(root->read("proc/" + name), parse);
}

/// Seconds on the monotonic clock; only differences mean anything.
double monotonic_seconds();

}  // namespace dlprobe::loader
