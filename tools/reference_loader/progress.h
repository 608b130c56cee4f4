#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/unique_fd.h"
#include "lib/model/recording.h"

namespace dlprobe::loader {

/// What --verify adds to a batch's line: the images in it, in order, and a sum over all its bytes.
struct BatchProof {
  std::vector<int64_t> images;
  uint64_t checksum = 0;
};

/// The loader's own account, one JSON object per line; see NOTE [progress protocol] in progress.cc.
///
/// May be told in a worker, too: a line is written whole.
///
/// Never blocks for longer than a second in all and never fails: whoever reads may be gone or hung,
/// and the loader's own work matters more. Lines that found no room are dropped.
class Progress {
 public:
  /// Of a worker that runs the program once more only starts are of interest.
  enum class Tells { kAll, kStarts };
  /// `fd` -1: nothing is written. Does not own it.
  explicit Progress(int fd, Tells tells = Tells::kAll) : fd_(fd), tells_(tells) {}

  void hello(const LoaderHello& hello);
  void batch(const LoaderBatch& batch, const BatchProof* proof);
  void done(const LoaderDone& done);
  /// "error", "broken-image", "no-image", "fault" or "note".
  void event(std::string_view name, std::string_view text);
  /// What this process does about starting others. `told.process` and `told.at` are filled in here.
  void start(StartEvent told);

 private:
  void tell(const std::string& line);
  void write_line(const std::string& line);
  int fd_;
  Tells tells_;
  int patience_ms_ = 1000;
};

/// This process, with its start time.
ProcessKey own_process();

}  // namespace dlprobe::loader
