#pragma once

#include <cstdint>
#include <string_view>

#include "lib/base/line_buffer.h"
#include "lib/base/unique_fd.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/os/clock.h"

namespace dlprobe {

/// The progress lines of the reference loader, as they come through a pipe, and when the last came.
class ProgressLines {
 public:
  /// `pipe`: non-blocking; or none. What is given by reference must outlive it.
  ProgressLines(UniqueFd pipe, const Clock& clock, RecordSink& sink);

  /// To be polled for reading; -1: there is none, or it was closed.
  int descriptor() const { return pipe_.get(); }
  bool is_open() const { return static_cast<bool>(pipe_); }

  /// Reads what has come, and emits its records.
  void read();

  /// When the last line came; when it was made, before the first.
  BootNs last_came() const { return last_came_; }
  uint64_t batches() const { return batches_; }

 private:
  void take_line(std::string_view line);

  UniqueFd pipe_;
  const Clock& clock_;
  RecordSink& sink_;
  LineBuffer lines_;
  BootNs last_came_;
  uint64_t batches_ = 0;
};

}  // namespace dlprobe
