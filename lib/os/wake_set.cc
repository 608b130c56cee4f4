#include "lib/os/wake_set.h"

#include <sys/epoll.h>

#include <array>

namespace dlprobe {

Expected<WakeSet> WakeSet::create() {
  WakeSet set;
  set.fd_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!set.fd_) return os_failure("epoll_create1");
  return set;
}

Status WakeSet::add(int descriptor) const {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.fd = descriptor;
  if (::epoll_ctl(fd_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) {
    return os_failure("epoll_ctl");
  }
  return {};
}

void WakeSet::clear() const {
  std::array<epoll_event, 64> events{};
  constexpr int kMost = static_cast<int>(events.size());
  while (::epoll_wait(fd_.get(), events.data(), kMost, 0) == kMost) {
  }
}

}  // namespace dlprobe
