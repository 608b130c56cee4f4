#include "lib/model/script_facts.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<ScriptFactKind, 15> kKinds = {{
    {ScriptFactKind::kOther, "other"},
    {ScriptFactKind::kStarts, "starts"},
    {ScriptFactKind::kStartsAtImport, "starts-at-import"},
    {ScriptFactKind::kMayStart, "may-start"},
    {ScriptFactKind::kMayStartAtImport, "may-start-at-import"},
    {ScriptFactKind::kUnpicklable, "unpicklable"},
    {ScriptFactKind::kNotFoundThere, "not-found-there"},
    {ScriptFactKind::kDefinedUnderGuard, "defined-under-guard"},
    {ScriptFactKind::kDaemonicChild, "daemonic-child"},
    {ScriptFactKind::kSetTwice, "set-twice"},
    {ScriptFactKind::kSetAtImport, "set-at-import"},
    {ScriptFactKind::kCudaAfterFork, "cuda-after-fork"},
    {ScriptFactKind::kHeavyAtImport, "heavy-at-import"},
    {ScriptFactKind::kMpiAtImport, "mpi-at-import"},
    {ScriptFactKind::kMainUnreadable, "main-unreadable"},
}};

}  // namespace

std::string_view to_string(ScriptFactKind kind) {
  return name_of(kKinds, kind);
}
ScriptFactKind script_fact_kind_from_string(std::string_view name) {
  return value_of(kKinds, name).value_or(ScriptFactKind::kOther);
}

}  // namespace dlprobe
