#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/collect/tree/record_sink.h"
#include "lib/model/recording.h"
#include "lib/model/recording_view.h"
#include "lib/os/atomic_file.h"

namespace dlprobe {

/// Takes the records of an examination: puts them together in memory, and appends them to a file if
/// one was asked for. The file is readable up to its last whole record whenever dlprobe stops.
///
/// The file is kept below `largest_file` by writing it anew, thinned as memory is, beside the old
/// one and renaming it into place. When it cannot be written any more (disk full) the examination
/// goes on without it, and a Gap says so.
class Recorder : public RecordSink {
 public:
  static constexpr uint64_t kLargestFile = uint64_t{256} << 20;

  /// `path` empty: in memory only. The file is created 0600; one that exists is replaced. A disk
  /// that is full from the beginning is no error, as one that fills later is none.
  static Expected<std::unique_ptr<Recorder>> open(const RecordingHeader& header,
                                                  const std::string& path,
                                                  uint64_t largest_file = kLargestFile);

  void add(Record record) override;
  const Recording& recording() const { return builder_.recording(); }
  /// The run that was begun last, an attempt or not. There must be one.
  const Run& current_run() const { return builder_.current(); }
  /// That run as the only one of a recording.
  RecordingView current_run_alone() const {
    return {recording().header, std::span(&current_run(), 1)};
  }
  Recording take() && { return std::move(builder_).take(); }
  /// Why the file does not hold all of it, in one line; empty: it does, or there is none.
  const std::string& ended_early() const { return ended_early_; }

 private:
  Recorder(const RecordingHeader& header, std::string path, uint64_t largest_file);
  Status begin_file(const RecordingHeader& header);
  void end_file(const Error& why);
  void keep_file_small();

  RecordingBuilder builder_;
  std::string path_;
  uint64_t largest_file_;
  std::optional<AppendFile> file_;
  std::optional<Gap> untold_;  ///< why the file ended
  std::string ended_early_;
  uint64_t compact_at_ = largest_file_;
};

}  // namespace dlprobe
