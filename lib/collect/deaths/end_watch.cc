#include "lib/collect/deaths/end_watch.h"

#include <utility>

namespace dlprobe {
namespace {

/// Early calls for the sake of deaths, from one sample to the next: other jobs of the machine may
/// send signals without end.
constexpr int kMostWakes = 20;

}  // namespace

EndWatch::EndWatch(const Machine& machine, RecordSink& sink)
    : machine_(machine),
      sink_(sink),
      exits_(machine, sink),
      oom_(machine, sink),
      wake_set_(WakeSet::create()) {}

void EndWatch::listen_to_deaths(DeadlineReader& reader) {
  deaths_.emplace(machine_, reader, sink_);
  wake_by(deaths_->descriptors());
}

void EndWatch::wake_by(const std::vector<int>& descriptors) const {
  for (const int descriptor : descriptors) {
    if (!wake_set_ || descriptor < 0) continue;
    // Without it the next sample sees what it would have told.
    if (!wake_set_->add(descriptor)) return;
  }
}

bool EndWatch::know_new_members(ProcessTree& tree) {
  bool any = false;
  for (auto& [key, process] : tree.members()) {
    if (std::exchange(process.wakes, true)) continue;
    wake_by({process.pidfd.get()});
    any = true;
  }
  return any;
}

void EndWatch::read_deaths(const ProcessTree& tree) {
  if (deaths_) deaths_->read(tree);
}

void EndWatch::look_at_deaths(ProcessTree& tree, bool counters) {
  if (!deaths_) return;
  deaths_->read(tree);
  if (!counters) return;
  oom_.find_groups(tree);
  oom_.read();
}

bool EndWatch::check(ProcessTree& tree) {
  const bool any = exits_.check(tree);
  if (any) tree.note_end();
  return any;
}

void EndWatch::note(ProcessTree& tree, const ProcessKey& key, int wait_status, std::string source) {
  exits_.note(tree, key, wait_status, std::move(source));
  look_at_deaths(tree, true);
}

int EndWatch::wake_descriptor() const {
  return wake_set_ && wakes_ < kMostWakes ? wake_set_->descriptor() : -1;
}

void EndWatch::forget_wakes() const {
  if (wake_set_) wake_set_->clear();
}

}  // namespace dlprobe
