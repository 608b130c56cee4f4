#pragma once

#include "lib/base/line_buffer.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/model/ids.h"
#include "lib/os/growing_file.h"

namespace dlprobe {

/// Finds lines with known texts (find_known_text) in what a job prints into a file.
///
/// The job's streams are left as they are, so what goes to a terminal or a pipe is not seen: a copy
/// would change isatty(3) for the job, or fail with dlprobe.
class LogWatch {
 public:
  explicit LogWatch(GrowingFile file) : file_(std::move(file)) {}

  /// Emits an Event of kind kLogLine for each known line that came since the last call, 50 in all.
  void read(RecordSink& sink, BootNs now);

 private:
  void take_line(std::string_view line, RecordSink& sink, BootNs now);

  GrowingFile file_;
  LineBuffer lines_;
  int emitted_ = 0;
};

}  // namespace dlprobe
