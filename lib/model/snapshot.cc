#include "lib/model/snapshot.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<LockKind, 14> kLockKinds = {{
    {LockKind::kUnknown, "unknown"},
    {LockKind::kMutex, "mutex"},
    {LockKind::kLowLevelLock, "low-level lock"},
    {LockKind::kReadWriteLock, "read-write lock"},
    {LockKind::kCondition, "condition variable"},
    {LockKind::kSemaphore, "semaphore"},
    {LockKind::kSharedSemaphore, "shared semaphore"},
    {LockKind::kBarrier, "barrier"},
    {LockKind::kJoin, "thread join"},
    {LockKind::kOnce, "once"},
    {LockKind::kOpenMpBarrier, "OpenMP barrier"},
    {LockKind::kOpenMpLock, "OpenMP lock"},
    {LockKind::kPythonMutex, "Python mutex"},
    {LockKind::kGil, "GIL"},
}};

}  // namespace

std::string_view to_string(LockKind kind) {
  return name_of(kLockKinds, kind);
}
LockKind lock_kind_from_string(std::string_view name) {
  return value_of(kLockKinds, name).value_or(LockKind::kUnknown);
}

}  // namespace dlprobe
