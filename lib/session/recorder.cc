#include "lib/session/recorder.h"

#include <algorithm>
#include <cerrno>

#include "lib/record/codec.h"
#include "lib/record/tokens.h"

namespace dlprobe {
namespace {

bool is_full_disk(const Error& error) {
  return error.os_errno == ENOSPC || error.os_errno == EDQUOT || error.os_errno == EFBIG;
}

}  // namespace

Expected<std::unique_ptr<Recorder>> Recorder::open(const RecordingHeader& header,
                                                   const std::string& path, uint64_t largest_file) {
  std::unique_ptr<Recorder> recorder(new Recorder(header, path, largest_file));
  if (path.empty()) return recorder;
  const Status begun = recorder->begin_file(header);
  if (begun) return recorder;
  if (!is_full_disk(begun.error())) return std::unexpected(begun.error());
  recorder->end_file(begun.error());
  return recorder;
}

Recorder::Recorder(const RecordingHeader& header, std::string path, uint64_t largest_file)
    : builder_(header), path_(std::move(path)), largest_file_(largest_file) {}

Status Recorder::begin_file(const RecordingHeader& header) {
  DLP_TRY(file_, AppendFile::create(path_));
  return file_->append(encode_header(header));
}

void Recorder::end_file(const Error& why) {
  file_.reset();
  ended_early_ = "the recording ended early: " + to_string(why);
  untold_ = Gap{.what = "the recording " + as_path(path_) + " ended early",
                .why = as_text(to_string(why)),
                .effect = "a replay sees less than this report",
                .remedy = "make room on that disk, or give --record another path"};
}

void Recorder::add(Record record) {
  mask_tokens(record);
  if (file_) {
    if (const Status added = file_->append(encode_record(record)); !added) end_file(added.error());
  }
  builder_.add(std::move(record));
  keep_file_small();
  // What belongs to no run would be lost.
  if (untold_ && !recording().runs.empty()) {
    builder_.add(*untold_);
    untold_.reset();
  }
}

void Recorder::keep_file_small() {
  if (!file_ || file_->size() <= compact_at_) return;
  if (const Status written = file_->rewrite(encode_recording(recording())); !written)
    return end_file(written.error());
  // What memory keeps may itself have grown beyond the limit: never compact at every record.
  compact_at_ = std::max(largest_file_, 2 * file_->size());
}

}  // namespace dlprobe
