#include "lib/model/descriptors.h"

namespace dlprobe {
namespace {

// In the order of FdKind.
constexpr std::array kMembers = {&FdKinds::files,    &FdKinds::sockets, &FdKinds::pipes,
                                 &FdKinds::eventfds, &FdKinds::epolls,  &FdKinds::segments,
                                 &FdKinds::memfds,   &FdKinds::devices, &FdKinds::others};
static_assert(kMembers.size() == kValues<FdKind>.size());

}  // namespace

uint64_t& FdKinds::operator[](FdKind kind) {
  return this->*kMembers.at(static_cast<size_t>(kind));
}

uint64_t FdKinds::operator[](FdKind kind) const {
  return this->*kMembers.at(static_cast<size_t>(kind));
}

uint64_t FdKinds::total() const {
  uint64_t sum = 0;
  for (const FdKind kind : kValues<FdKind>)
    sum += (*this)[kind];
  return sum;
}

}  // namespace dlprobe
