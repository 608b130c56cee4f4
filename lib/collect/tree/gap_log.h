#pragma once

#include <set>
#include <string>

#include "lib/collect/tree/record_sink.h"

namespace dlprobe {

/// Emits each gap once: what cannot be read now could not be read 100 ms ago.
class GapLog {
 public:
  explicit GapLog(RecordSink& sink) : sink_(&sink) {}

  void add(Gap gap) {
    if (seen_.size() >= kLimit || !seen_.insert(gap.what.plain()).second) return;
    sink_->add(std::move(gap));
  }

 private:
  static constexpr size_t kLimit = 200;
  RecordSink* sink_;
  std::set<std::string> seen_;
};

}  // namespace dlprobe
