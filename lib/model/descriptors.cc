#include "lib/model/descriptors.h"

#include <numeric>

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<FdKind, kFdKinds.size()> kNames = {{
    {FdKind::kFile, "file"},
    {FdKind::kSocket, "socket"},
    {FdKind::kPipe, "pipe"},
    {FdKind::kEventfd, "eventfd"},
    {FdKind::kEpoll, "epoll"},
    {FdKind::kSegment, "shm-segment"},
    {FdKind::kMemfd, "memfd"},
    {FdKind::kDevice, "device"},
    {FdKind::kOther, "other"},
}};

}  // namespace

std::string_view to_string(FdKind kind) {
  return name_of(kNames, kind);
}
FdKind fd_kind_from_string(std::string_view name) {
  return value_of(kNames, name).value_or(FdKind::kOther);
}

uint64_t FdKinds::total() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

}  // namespace dlprobe
