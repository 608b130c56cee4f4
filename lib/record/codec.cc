#include "lib/record/codec.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "lib/base/units.h"
#include "lib/record/field_codec.h"

namespace dlprobe {
namespace {

/// How many records follow that are what was left after thinning. Written by encode_recording only.
struct KeptRecords {
  uint64_t count = 0;
  uint64_t thinned_records = 0;
  BootNs thinned_at = 0;
};
constexpr void list_fields(auto&& field, Of<KeptRecords> /*of*/) {
  field("count", &KeptRecords::count, "the next so many records are what was left of all");
  field("thinned", &KeptRecords::thinned_records, "so many had been dropped");
  field("at", &KeptRecords::thinned_at, "when that was last looked at", Unit::kMoment);
}

/// What the header of a file holds beside RecordingHeader.
struct HeaderExtension {
  std::optional<KeptRecords> kept;
};
constexpr void list_fields(auto&& field, Of<HeaderExtension> /*of*/) {
  field("kept", &HeaderExtension::kept, "only in a file that was rewritten to stay small");
}

// The first byte is not ASCII, so that no text file looks like a recording (as PNG does it).
constexpr std::string_view kMagic =
    "\x89"
    "DLPREC";
constexpr size_t kPreambleBytes = kMagic.size() + 2;
constexpr size_t kFrameHeadBytes = 8;
constexpr uint32_t kMostRecordBytes = 16U << 20U;

// The name that a record of that type goes by in the file; empty if Run does not hold it.
template <class T>
constexpr std::string_view record_name() {
  std::string_view name;
  for_each_field<Run>([&]<class V>(const Field<Run, V>& field) {
    if constexpr (std::same_as<typename RecordOf<V>::type, T>) name = field.key;
  });
  return name;
}

struct RecordKind {
  std::string_view name;
  bool (*read)(CborReader& in, Record& out);
};

template <class... T>
constexpr auto make_kinds(const std::variant<T...>* /*types*/) {
  static_assert((!record_name<T>().empty() && ...), "Run holds every type of Record");
  return std::array{RecordKind{.name = record_name<T>(), .read = [](CborReader& in, Record& out) {
                                 return Codec<T>::read(in, out.emplace<T>());
                               }}...};
}

constexpr auto kRecordKinds = make_kinds(static_cast<const Record*>(nullptr));

constexpr size_t members_of_run() {
  size_t count = 0;
  for_each_field<Run>([&](const auto& /*field*/) { ++count; });
  return count;
}
static_assert(members_of_run() == kRecordKinds.size(), "what Run holds is a Record");

// FNV-1a, 32 bits: finds damage, not malice.
uint32_t checksum(std::string_view bytes) {
  uint32_t hash = 2166136261U;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 16777619U;
  }
  return hash;
}

void append_u32(std::string& out, uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    out += static_cast<char>(static_cast<unsigned char>((value >> shift) & 0xFFU));
  }
}

uint32_t read_u32(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

std::string frame(std::string_view body) {
  std::string result;
  result.reserve(kFrameHeadBytes + body.size());
  append_u32(result, static_cast<uint32_t>(body.size()));
  append_u32(result, checksum(body));
  return result.append(body);
}

template <class T>
std::string frame_of(const T& record) {
  std::string body;
  append_head(body, CborKind::kArray, 2);
  append_text(body, record_name<T>());
  Codec<T>::write(body, record);
  if (body.size() <= kMostRecordBytes) return frame(body);
  return frame_of(Gap{.what = "a record of " + format_bytes(body.size()),
                      .why = "a recording holds records of up to " + format_bytes(kMostRecordBytes),
                      .effect = "its content is missing from the recording"});
}

std::string frame_of(const RecordingHeader& header, const HeaderExtension& extension) {
  const FieldCodecs& own = field_codecs<RecordingHeader>();
  const FieldCodecs& more = field_codecs<HeaderExtension>();
  std::string body;
  append_head(body, CborKind::kMap, count_fields(own, &header) + count_fields(more, &extension));
  write_fields(body, own, &header);
  write_fields(body, more, &extension);
  return frame(body);
}

// Reads the whole of `body` as a T.
template <class T>
bool read_whole(std::string_view body, T& out) {
  CborReader in(body);
  return Codec<T>::read(in, out) && in.is_at_end();
}

struct Target {
  RecordingBuilder builder;
  uint64_t kept_left = 0;  // records that still are to be restored

  void file(Record record) {
    if (kept_left > 0) {
      --kept_left;
      builder.restore(std::move(record));
    } else {
      builder.add(std::move(record));
    }
  }
};

std::unexpected<Error> damaged(size_t offset, std::string_view what) {
  return failure(ErrorCode::kMalformed, "the recording is damaged at byte " +
                                            std::to_string(offset) + ": " + std::string(what));
}

// What a file system may leave at the end of a file of a write that a crash cut short.
bool is_zeros(std::string_view bytes) {
  return bytes.find_first_not_of('\0') == std::string_view::npos;
}

// Goes through the whole frames of a part of a file, one after the other.
class Frames {
 public:
  /// `offset`: where the part begins in the file.
  Frames(std::string_view part, size_t offset) : rest_(part), end_(offset + part.size()) {}

  /// Where the next frame begins.
  size_t offset() const { return end_ - rest_.size(); }

  /// The bytes of the next item; nothing at the end of the part, or where the last frame goes on.
  Expected<std::optional<std::string_view>> next() {
    if (rest_.size() < kFrameHeadBytes) return std::nullopt;
    const uint32_t length = read_u32(rest_);
    if (length == 0 && is_zeros(rest_)) return std::nullopt;
    if (length == 0 || length > kMostRecordBytes) {
      return damaged(offset(), "a record cannot be " + std::to_string(length) + " bytes long");
    }
    const std::string_view body = rest_.substr(kFrameHeadBytes, length);
    if (body.size() < length) return std::nullopt;
    if (checksum(body) != read_u32(rest_.substr(4))) {
      return damaged(offset(), "its checksum is wrong");
    }
    rest_.remove_prefix(kFrameHeadBytes + length);
    return body;
  }

 private:
  std::string_view rest_;
  size_t end_;
};

Status check_preamble(std::string_view bytes) {
  const std::string_view start = bytes.substr(0, kMagic.size());
  if (start.empty() || !kMagic.starts_with(start)) {
    return failure(ErrorCode::kMalformed, "not a dlprobe recording: its first bytes are other");
  }
  if (bytes.size() < kPreambleBytes) {
    return failure(ErrorCode::kMalformed, "the recording is cut off inside its header");
  }
  const int major = static_cast<unsigned char>(bytes[kMagic.size()]);
  const int minor = static_cast<unsigned char>(bytes[kMagic.size() + 1]);
  if (major != kRecordingMajor) {
    return failure(ErrorCode::kUnsupported,
                   "the recording has format " + std::to_string(major) + "." +
                       std::to_string(minor) + ", and this dlprobe reads format " +
                       std::to_string(kRecordingMajor) + ".x: use a dlprobe of that version");
  }
  return {};
}

Expected<Target> read_header(size_t offset, std::string_view body) {
  RecordingHeader header;
  HeaderExtension extension;
  if (!read_whole(body, header) || !read_whole(body, extension)) {
    return damaged(offset, "its header makes no sense");
  }
  if (header.host.page_size == 0 || header.host.ticks_per_second == 0) {
    return damaged(offset, "its header has a page size or a clock rate of 0");
  }
  const KeptRecords kept = extension.kept.value_or(KeptRecords{});
  Target target = {.builder = RecordingBuilder(std::move(header)), .kept_left = kept.count};
  target.builder.mark_thinned(kept.thinned_records, kept.thinned_at);
  return target;
}

// A name of a newer dlprobe costs the record that it stands in. Without what begins a run, though,
// all that follows would be taken for part of the run before.
Status read_record(size_t offset, std::string_view body, Target& target) {
  CborReader in(body);
  std::string_view name;
  if (in.array() != 2 || !in.text(name)) return damaged(offset, "a record makes no sense");
  const auto* const kind = std::ranges::find(kRecordKinds, name, &RecordKind::name);
  if (kind == kRecordKinds.end()) {  // a kind that a newer dlprobe added
    if (in.skip() && in.is_at_end()) return {};
    return damaged(offset, "a record makes no sense");
  }
  Record record;
  const bool is_read = kind->read(in, record);
  const std::string unknown = in.unknown_name();
  if (is_read && in.is_at_end()) {
    target.file(std::move(record));
  } else if (unknown.empty()) {
    return damaged(offset, "a record makes no sense");
  } else if (std::holds_alternative<RunBegin>(record)) {
    return damaged(offset, unknown + ", which this dlprobe does not know");
  } else {
    target.file(Gap{.what = "a record of kind " + as_name(name),
                    .why = as_text(unknown) + ", which this dlprobe does not know",
                    .effect = "what it said is missing",
                    .remedy = "replay it with the dlprobe that made it"});
  }
  return {};
}

std::string preamble() {
  std::string result(kMagic);
  result += static_cast<char>(kRecordingMajor);
  result += static_cast<char>(kRecordingMinor);
  return result;
}

// Appends records one after the other and counts them.
struct RecordWriter {
  std::string bytes;
  uint64_t count = 0;

  template <class T>
  void operator()(const T& record) {
    bytes += frame_of(record);
    ++count;
  }
  template <class T>
  void operator()(const std::vector<T>& records) {
    for (const T& record : records)
      (*this)(record);
  }
  template <class T>
  void operator()(const std::optional<T>& record) {
    if (record) (*this)(*record);
  }
};

void write_run(RecordWriter& writer, const Run& run) {
  for_each_field<Run>([&](const auto& field) { writer(run.*field.member); });
}

}  // namespace

std::string encode_header(const RecordingHeader& header) {
  return preamble() + frame_of(header, HeaderExtension{});
}

std::string encode_recording(const Recording& recording) {
  RecordWriter writer;
  for (const Run& run : recording.runs)
    write_run(writer, run);
  for (const Run& run : recording.attempts)
    write_run(writer, run);
  const KeptRecords kept = {.count = writer.count,
                            .thinned_records = recording.thinned_records,
                            .thinned_at = recording.thinned_at};
  return preamble() + frame_of(recording.header, {.kept = kept}) + writer.bytes;
}

std::string encode_record(const Record& record) {
  return std::visit([](const auto& value) { return frame_of(value); }, record);
}

struct RecordingReader::State {
  std::string rest;    // what was not read yet: the beginning of a frame
  size_t offset = 0;   // where that lies in the file
  bool begun = false;  // the preamble is right
  std::optional<Target> target;

  void drop(size_t bytes) {
    rest.erase(0, bytes);
    offset += bytes;
  }
};

RecordingReader::RecordingReader() : state_(std::make_unique<State>()) {}
RecordingReader::~RecordingReader() = default;

Status RecordingReader::add(std::string_view bytes) {
  State& state = *state_;
  state.rest += bytes;
  if (!state.begun && state.rest.size() < kPreambleBytes) return {};
  if (!state.begun) {
    DLP_CHECK(check_preamble(state.rest));
    state.begun = true;
    state.drop(kPreambleBytes);
  }
  Frames frames(state.rest, state.offset);
  while (true) {
    const size_t offset = frames.offset();
    DLP_TRY(const auto body, frames.next());
    if (!body) break;
    if (state.target) {
      DLP_CHECK(read_record(offset, *body, *state.target));
    } else {
      DLP_TRY(state.target, read_header(offset, *body));
    }
  }
  state.drop(frames.offset() - state.offset);
  if (is_zeros(state.rest)) state.rest.resize(std::min(state.rest.size(), kFrameHeadBytes));
  return {};
}

Expected<Recording> RecordingReader::finish() && {
  State& state = *state_;
  if (!state.begun) DLP_CHECK(check_preamble(state.rest));
  if (!state.target)
    return failure(ErrorCode::kMalformed, "the recording is cut off inside its header");
  RecordingBuilder& builder = state.target->builder;
  // A remedy that was not tried to its end takes nothing from what was examined.
  const std::vector<Run>& runs = builder.recording().runs;
  if (!state.rest.empty() || runs.empty() || !runs.back().end) builder.mark_truncated();
  return std::move(builder).take();
}

}  // namespace dlprobe
