#pragma once

#include "lib/model/recording.h"

namespace dlprobe {

/// Where records go as they are made: a file, a RecordingBuilder, a test.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  RecordSink() = default;
  RecordSink(const RecordSink&) = delete;
  RecordSink& operator=(const RecordSink&) = delete;

  virtual void add(Record record) = 0;
};

}  // namespace dlprobe
