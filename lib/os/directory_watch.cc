#include "lib/os/directory_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

namespace dlprobe {

Expected<DirectoryWatch> DirectoryWatch::start(const Directory& directory) {
  if (directory.native_handle() < 0) {
    return failure(ErrorCode::kUnsupported, "watch " + directory.path() + ": a recorded machine");
  }
  UniqueFd fd(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd) return os_failure("inotify_init");
  // inotify takes paths only; this one leads to the pinned directory whatever its name is now.
  const std::string path = "/proc/self/fd/" + std::to_string(directory.native_handle());
  if (::inotify_add_watch(fd.get(), path.c_str(), IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) < 0) {
    return os_failure("inotify_add_watch " + directory.path());
  }
  return DirectoryWatch(std::move(fd));
}

DirectoryWatch::News DirectoryWatch::take(size_t limit) const {
  News news;
  alignas(inotify_event) std::array<char, 16384> buffer;
  while (news.created.size() < limit) {
    const ssize_t got = ::read(fd_.get(), buffer.data(), buffer.size());
    if (got <= 0) break;
    const auto end = static_cast<size_t>(got);
    for (size_t at = 0; at + sizeof(inotify_event) <= end;) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof event);
      if ((event.mask & IN_Q_OVERFLOW) != 0) news.overflowed = true;
      if (event.len > 0) {
        const char* name = buffer.data() + at + sizeof event;
        news.created.emplace_back(name, ::strnlen(name, event.len));
      }
      at += sizeof event + event.len;
    }
  }
  return news;
}

}  // namespace dlprobe
