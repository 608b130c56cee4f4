#include "tools/dlprobe/recorder.h"

#include <utility>

#include "lib/model/recording_codec.h"

namespace dlprobe {

Expected<std::unique_ptr<Recorder>> Recorder::open(const RecordingHeader& header,
                                                   const std::string& path) {
  std::optional<AppendFile> file;
  if (!path.empty()) {
    DLP_TRY(file, AppendFile::create(path));
    DLP_CHECK(file->append(encode_header(header)));
  }
  return std::unique_ptr<Recorder>(new Recorder(header, path, std::move(file)));
}

Recorder::Recorder(const RecordingHeader& header, std::string path, std::optional<AppendFile> file)
    : builder_(header), path_(std::move(path)), file_(std::move(file)) {}

void Recorder::add(Record record) {
  if (file_) {
    Status status = file_->append(encode_record(record));
    if (status && file_->size() > compact_at_) status = compact();
    if (!status) {
      file_.reset();
      builder_.add(Gap{.what = "the end of the recording " + path_,
                       .why = to_string(status.error()),
                       .effect = "a replay sees less than this report did",
                       .remedy = "make room on that disk, or give --record another path"});
    }
  }
  builder_.add(std::move(record));
}

Status Recorder::compact() {
  DLP_CHECK(write_file_atomically(path_, encode_recording(recording())));
  DLP_TRY(file_, AppendFile::open_existing(path_));
  // What memory keeps may itself have grown beyond the limit: never compact at every record.
  compact_at_ = std::max(kLargestFile, 2 * file_->size());
  return {};
}

}  // namespace dlprobe
