#include "lib/session/shm_preview.h"

#include <utility>
#include <variant>

#include "lib/collect/tree/tracked_process.h"
#include "lib/collect/tree_collector.h"

namespace dlprobe {
namespace {

// Lets through what is about /dev/shm: dlprobe is not a part of the subject.
class ShmRecordsOnly : public RecordSink {
 public:
  explicit ShmRecordsOnly(RecordSink& sink) : sink_(sink) {}

  void add(Record record) override {
    if (const auto* sample = std::get_if<Sample>(&record)) {
      for (const Observed<ShmUse>& use : sample->shm) {
        if (use) sink_.add(*use);
      }
      return;
    }
    const bool is_about_shm =
        std::holds_alternative<ShmMount>(record) || std::holds_alternative<ShmUse>(record) ||
        std::holds_alternative<ShmLedger>(record) || std::holds_alternative<Gap>(record);
    if (is_about_shm) sink_.add(std::move(record));
  }

 private:
  RecordSink& sink_;
};

}  // namespace

void look_at_shm_of(pid_t pid, const Machine& machine, RecordSink& sink) {
  const auto key = process_key(machine, pid);
  if (!key) {
    sink.add(Gap{.what = "/dev/shm before the start",
                 .why = as_text(to_string(key.error())),
                 .effect = "dlprobe could not tell beforehand whether the loader fits",
                 .remedy = "mount /proc"});
    return;
  }
  ShmRecordsOnly shm_records(sink);
  TreeCollector collector(machine, *key, {.waits = false, .pss = false}, shm_records);
  collector.tick();
  collector.take_ledger();
}

}  // namespace dlprobe
