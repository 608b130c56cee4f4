#pragma once

#include <string_view>
#include <utility>

#include "lib/record/codec.h"

namespace dlprobe {

/// A whole file, by a RecordingReader.
inline Expected<Recording> decode_recording(std::string_view bytes) {
  RecordingReader reader;
  DLP_CHECK(reader.add(bytes));
  return std::move(reader).finish();
}

}  // namespace dlprobe
