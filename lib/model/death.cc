#include "lib/model/death.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<KernelLogKind, 3> kKernelLogKinds = {{
    {KernelLogKind::kOomKill, "oom-kill"},
    {KernelLogKind::kFault, "fault"},
    {KernelLogKind::kMemoryError, "memory-error"},
}};

}  // namespace

std::string_view to_string(KernelLogKind kind) {
  return name_of(kKernelLogKinds, kind);
}

KernelLogKind kernel_log_kind_from_string(std::string_view name) {
  return value_of(kKernelLogKinds, name).value_or(KernelLogKind::kFault);
}

}  // namespace dlprobe
