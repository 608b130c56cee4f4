#include "lib/model/start_event.h"

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

constexpr NameTable<StartEventKind, 13> kKinds = {{
    {StartEventKind::kInterpreter, "interpreter"},
    {StartEventKind::kChosen, "chosen"},
    {StartEventKind::kStarted, "started"},
    {StartEventKind::kRefused, "refused"},
    {StartEventKind::kMainImported, "main-imported"},
    {StartEventKind::kMainNotImported, "main-not-imported"},
    {StartEventKind::kFirstBatch, "first-batch"},
    {StartEventKind::kLoaderMade, "loader-made"},
    {StartEventKind::kBatches, "batches"},
    {StartEventKind::kMpiBegins, "mpi-begins"},
    {StartEventKind::kMpiReady, "mpi-ready"},
    {StartEventKind::kFailed, "failed"},
    {StartEventKind::kHookFailed, "hook-failed"},
}};

constexpr NameTable<StartRefusal, 8> kRefusals = {{
    {StartRefusal::kNone, "none"},
    {StartRefusal::kBootstrapping, "bootstrapping"},
    {StartRefusal::kDaemonic, "daemonic"},
    {StartRefusal::kContextSet, "context-set"},
    {StartRefusal::kUnpicklable, "unpicklable"},
    {StartRefusal::kNotFoundThere, "not-found-there"},
    {StartRefusal::kCudaAfterFork, "cuda-after-fork"},
    {StartRefusal::kOther, "other"},
}};

}  // namespace

std::string_view to_string(StartEventKind kind) {
  return name_of(kKinds, kind);
}
StartEventKind start_event_kind_from_string(std::string_view name) {
  return value_of(kKinds, name).value_or(StartEventKind::kHookFailed);
}

std::string_view to_string(StartRefusal refusal) {
  return name_of(kRefusals, refusal);
}
StartRefusal start_refusal_from_string(std::string_view name) {
  return value_of(kRefusals, name).value_or(StartRefusal::kOther);
}

}  // namespace dlprobe
