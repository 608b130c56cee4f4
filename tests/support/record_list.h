#pragma once

#include <utility>
#include <vector>

#include "lib/collect/tree/record_sink.h"

namespace dlprobe {

/// Keeps every record.
class RecordList final : public RecordSink {
 public:
  void add(Record record) override { records_.push_back(std::move(record)); }

  /// Those of one kind, in their order.
  template <class T>
  std::vector<T> all() const {
    std::vector<T> found;
    for (const Record& record : records_) {
      if (const T* one = std::get_if<T>(&record)) found.push_back(*one);
    }
    return found;
  }
  void clear() { records_.clear(); }

 private:
  std::vector<Record> records_;
};

}  // namespace dlprobe
