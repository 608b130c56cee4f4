#pragma once

#include <span>

#include "lib/model/recording.h"

namespace dlprobe {

/// Runs of one recording, and the header that they share. It refers to both and copies nothing, so
/// a single run that is still being recorded can be judged as it stands.
struct RecordingView {
  // Whoever takes a view takes a recording, too.
  // NOLINTNEXTLINE(google-explicit-constructor,misc-explicit-constructor)
  RecordingView(const Recording& recording) : header(recording.header), runs(recording.runs) {}
  RecordingView(const RecordingHeader& its_header, std::span<const Run> its_runs)
      : header(its_header), runs(its_runs) {}

  const RecordingHeader& header;
  std::span<const Run> runs;
};

}  // namespace dlprobe
