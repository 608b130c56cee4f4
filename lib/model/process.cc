#include "lib/model/process.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<Role, 7> kRoles = {{
    {Role::kTrainer, "trainer"},
    {Role::kWorker, "worker"},
    {Role::kForkserver, "forkserver"},
    {Role::kResourceTracker, "resource-tracker"},
    {Role::kShmManager, "shm-manager"},
    {Role::kLauncher, "launcher"},
    {Role::kOther, "other"},
}};

}  // namespace

std::string_view to_string(Role role) {
  return name_of(kRoles, role);
}

Role role_from_string(std::string_view name) {
  return value_of(kRoles, name).value_or(Role::kOther);
}

}  // namespace dlprobe
