#include "lib/model/shm.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<SegmentKind, 5> kSegmentKinds = {{
    {SegmentKind::kTorchTensor, "torch-tensor"},
    {SegmentKind::kPythonSemaphore, "python-semaphore"},
    {SegmentKind::kSemaphore, "semaphore"},
    {SegmentKind::kPythonShared, "python-shared-memory"},
    {SegmentKind::kOther, "other"},
}};

constexpr NameTable<CreatorState, 4> kCreatorStates = {{
    {CreatorState::kNone, "none"},
    {CreatorState::kAlive, "alive"},
    {CreatorState::kDead, "dead"},
    {CreatorState::kUnknown, "unknown"},
}};

}  // namespace

std::string_view to_string(SegmentKind kind) {
  return name_of(kSegmentKinds, kind);
}
SegmentKind segment_kind_from_string(std::string_view name) {
  return value_of(kSegmentKinds, name).value_or(SegmentKind::kOther);
}

std::string_view to_string(CreatorState state) {
  return name_of(kCreatorStates, state);
}
CreatorState creator_state_from_string(std::string_view name) {
  return value_of(kCreatorStates, name).value_or(CreatorState::kUnknown);
}

}  // namespace dlprobe
