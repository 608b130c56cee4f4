#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/error.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// The format's version: readers refuse another major, and ignore what they do not know of a newer
/// minor.
inline constexpr int kRecordingMajor = 1;
inline constexpr int kRecordingMinor = 0;

/// The first bytes of a recording file, then the header as one CBOR item; see
/// docs/recording-format.md.
std::string encode_header(const RecordingHeader& header);

/// One record as a length-prefixed CBOR item, ready to be appended to the file.
std::string encode_record(const Record& record);

/// A whole file that holds what `recording` holds, thinned as it is, and to which further records
/// can be appended: reading it gives the same Recording as reading the file that held every record.
std::string encode_recording(const Recording& recording);

/// Reads a file back piece by piece, through a RecordingBuilder, so that a long one takes no more
/// memory than the watch that wrote it.
class RecordingReader {
 public:
  RecordingReader();
  ~RecordingReader();
  /// The next bytes of the file. kMalformed: not a recording, or damaged in the middle (says at
  /// which byte). kUnsupported: another major version (says which, and which this dlprobe reads).
  Status add(std::string_view bytes);
  /// The end of the file. A last record that is cut off is dropped, and Recording::truncated set.
  Expected<Recording> finish() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dlprobe
