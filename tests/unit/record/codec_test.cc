#include "lib/record/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include <nlohmann/json.hpp>

#include "tests/support/decode_recording.h"
#include "tests/support/must.h"
#include "tests/support/read_text.h"
#include "tests/unit/record/filled.h"

namespace dlprobe {

namespace {

using testing::filled_header;
using testing::filled_records;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr size_t kPreambleBytes = 9;
constexpr size_t kFrameHeadBytes = 8;

std::string file_of(const std::vector<Record>& records) {
  std::string bytes = encode_header(filled_header());
  for (const Record& record : records)
    bytes += encode_record(record);
  return bytes;
}

Recording built_from(const std::vector<Record>& records) {
  RecordingBuilder builder(filled_header());
  for (const Record& record : records)
    builder.add(record);
  return std::move(builder).take();
}

// A frame with a right length and checksum around any body: what a hostile writer can make.
std::string framed(std::string_view body) {
  uint32_t sum = 2166136261U;
  for (const char byte : body)
    sum = (sum ^ static_cast<unsigned char>(byte)) * 16777619U;
  std::string result;
  for (const uint32_t word : {static_cast<uint32_t>(body.size()), sum}) {
    for (unsigned shift = 0; shift < 32; shift += 8) {
      result += static_cast<char>(static_cast<unsigned char>(word >> shift));
    }
  }
  return result + std::string(body);
}

std::string framed(const nlohmann::json& item) {
  std::string body;
  nlohmann::json::to_cbor(item, body);
  return framed(std::string_view(body));
}

Expected<Recording> decode_with(std::string_view frames) {
  return decode_recording(encode_header(filled_header()) + std::string(frames));
}

TEST(RecordingCodec, EveryFieldOfEveryRecordComesBack) {
  for (const Record& record : filled_records()) {
    const std::vector<Record> records = {RunBegin{}, record};
    const auto decoded = must(decode_recording(file_of(records)));
    EXPECT_EQ(decoded.header, filled_header());
    const Recording built = built_from(records);
    EXPECT_EQ(decoded.runs, built.runs) << "record kind " << record.index();
    EXPECT_EQ(decoded.attempts, built.attempts);
  }
}

TEST(RecordingCodec, EncodingWhatWasDecodedGivesTheSameBytes) {
  ProcessInfo process;
  for (const Record& record : filled_records()) {
    if (std::holds_alternative<ProcessInfo>(record)) process = std::get<ProcessInfo>(record);
    const auto decoded = must(decode_recording(file_of({RunBegin{}, process})));
    EXPECT_EQ(encode_record(decoded.runs.at(0).processes.at(0)), encode_record(process));
  }
}

TEST(RecordingCodec, RecordingsOfOldLoadAndCanBeWrittenAnew) {
  for (const auto& entry : std::filesystem::directory_iterator(DLPROBE_RECORDINGS_DIR)) {
    if (entry.path().extension() != ".dlrec") continue;
    const auto old = decode_recording(read_text(entry.path()));
    ASSERT_TRUE(old) << entry.path() << ": " << to_string(old.error());
    auto again = decode_recording(encode_recording(*old));
    ASSERT_TRUE(again) << entry.path() << ": " << to_string(again.error());
    again->truncated = old->truncated;
    EXPECT_TRUE(*again == *old) << entry.path();
    for (const auto& run : old->runs) {
      for (const Gap& gap : run.gaps)
        EXPECT_THAT(gap.why.plain(), Not(HasSubstr("which this dlprobe does not know")));
    }
  }
}

TEST(RecordingCodec, ANameThatIsNotKnownCostsItsRecordAndIsSaid) {
  const auto decoded =
      decode_with(encode_record(RunBegin{}) +
                  framed(nlohmann::json{"process", {{"key", {7, 8}}, {"role", "of-the-future"}}}) +
                  encode_record(RunEnd{}));
  ASSERT_TRUE(decoded) << to_string(decoded.error());
  EXPECT_TRUE(decoded->runs.at(0).processes.empty());
  ASSERT_EQ(decoded->runs.at(0).gaps.size(), 1U);
  EXPECT_EQ(decoded->runs.at(0).gaps.at(0).what.plain(), "a record of kind process");
  EXPECT_THAT(decoded->runs.at(0).gaps.at(0).why.plain(), HasSubstr("`role` is \"of-the-future\""));
}

TEST(RecordingCodec, AMessageOfOldIsFreeText) {
  const auto decoded = must(decode_with(
      encode_record(RunBegin{}) +
      framed(nlohmann::json{"gap", {{"what", "stacks of process 7"}, {"why", "7 is acme"}}})));
  const Gap& gap = decoded.runs.at(0).gaps.at(0);
  EXPECT_EQ(gap.what, as_text("stacks of process 7"));
  EXPECT_EQ(gap.why, as_text("7 is acme"));
}

TEST(RecordingCodec, AReaderOfOldFindsTheTextOfAMessage) {
  const std::string bytes = encode_record(
      Gap{.what = "segments made in " + as_path("/srv/a"), .why = as_text("no room")});
  const auto gap = nlohmann::json::from_cbor(bytes.substr(kFrameHeadBytes))[1];
  EXPECT_EQ(gap["what"], "segments made in /srv/a");
  EXPECT_EQ(gap["what_parts"][1], nlohmann::json({{"kind", "path"}, {"text", "/srv/a"}}));
  EXPECT_EQ(gap["why"], "no room");
  EXPECT_FALSE(gap.contains("why_parts"));
}

TEST(RecordingCodec, ARunOfAnUnknownKindIsRefusedByName) {
  const auto decoded = decode_with(framed(nlohmann::json{"run", {{"subject", "container"}}}));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().context, HasSubstr("`subject` is \"container\""));
}

TEST(RecordingCodec, EveryTruncationGivesThePrefix) {
  // The filled one of each kind: one run that ends once.
  std::vector<Record> records = {RunBegin{}};
  for (const Record& record : filled_records()) {
    if (records.back().index() != record.index()) records.push_back(record);
  }
  const std::string bytes = file_of(records);
  const size_t header_end = encode_header(filled_header()).size();
  const auto whole = must(decode_recording(bytes));
  EXPECT_FALSE(whole.truncated);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto decoded = decode_recording(std::string_view(bytes).substr(0, size));
    if (size < header_end) {
      ASSERT_FALSE(decoded) << size;
      EXPECT_EQ(decoded.error().code, ErrorCode::kMalformed);
      continue;
    }
    ASSERT_TRUE(decoded) << size << ": " << to_string(decoded.error());
    EXPECT_TRUE(decoded->truncated) << size;
    EXPECT_EQ(decoded->header, whole.header);
  }
}

TEST(RecordingCodec, AWholePrefixKeepsItsRecords) {
  auto records = filled_records();
  const std::string bytes = file_of(records);
  records.pop_back();
  const auto decoded = must(decode_recording(std::string_view(bytes).substr(0, bytes.size() - 1)));
  EXPECT_EQ(decoded.runs, built_from(records).runs);
}

TEST(RecordingCodec, ATailOfZerosIsATruncation) {
  const auto decoded = must(decode_with(encode_record(RunBegin{}) + std::string(100, '\0')));
  EXPECT_TRUE(decoded.truncated);
  EXPECT_EQ(decoded.runs.size(), 1U);
}

TEST(RecordingCodec, PieceByPieceItIsTheSame) {
  const std::string zeros(100, '\0');
  for (const std::string& end : {std::string(), zeros, zeros + "x"}) {
    const std::string bytes = file_of({RunBegin{}, Event{.at = 7, .text = "x"}, RunEnd{}}) + end;
    const auto whole = decode_recording(bytes);
    RecordingReader reader;
    Status taken;
    for (size_t i = 0; taken && i < bytes.size(); ++i)
      taken = reader.add(std::string_view(bytes).substr(i, 1));
    ASSERT_EQ(taken.has_value(), whole.has_value());
    if (whole) {
      EXPECT_EQ(std::move(reader).finish(), whole);
    } else {
      EXPECT_EQ(taken.error(), whole.error());
    }
  }
}

TEST(RecordingCodec, DamageInTheMiddleSaysWhere) {
  std::string bytes = file_of(filled_records());
  const size_t at = encode_header(filled_header()).size();
  bytes[at + kFrameHeadBytes + 3] ^= 0x40;
  const auto decoded = decode_recording(bytes);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kMalformed);
  EXPECT_THAT(decoded.error().context, HasSubstr("byte " + std::to_string(at) + ":"));
}

TEST(RecordingCodec, AnotherMajorVersionIsRefusedWithBothVersions) {
  std::string bytes = file_of(filled_records());
  bytes[kPreambleBytes - 2] = 9;
  const auto decoded = decode_recording(bytes);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(decoded.error().context, HasSubstr("format 9.0"));
  EXPECT_THAT(decoded.error().context, HasSubstr("format 1.x"));
}

TEST(RecordingCodec, ANewerMinorVersionIsReadWithoutWhatItAdds) {
  std::string bytes = encode_header(filled_header());
  bytes[kPreambleBytes - 1] = 42;
  bytes += encode_record(RunBegin{});
  bytes += framed(nlohmann::json{"gpu-sample", {{"at", 5}}});
  bytes += framed(nlohmann::json{"shm", {{"at", 5}, {"used", 7}, {"huge_pages", true}}});
  const auto decoded = must(decode_recording(bytes));
  ASSERT_EQ(decoded.runs.at(0).shm_use.size(), 1U);
  EXPECT_EQ(decoded.runs.at(0).shm_use.at(0).used_bytes, 7U);
}

TEST(RecordingCodec, OtherFilesAreNotRecordings) {
  for (const std::string_view bytes : {"", "{}",
                                       "\x7f"
                                       "ELF",
                                       "\x89PNG\r\n\x1a\n"}) {
    const auto decoded = decode_recording(bytes);
    ASSERT_FALSE(decoded);
    EXPECT_EQ(decoded.error().code, ErrorCode::kMalformed);
  }
}

TEST(RecordingCodec, WrongTypesAreMalformed) {
  using nlohmann::json;
  const std::vector<json> wrong = {
      json{"shm", {{"at", "noon"}}},
      json{"shm", {{"used", -1}}},
      json{"shm", {{"used", 1.5}}},
      json{"shm", {{"at", std::numeric_limits<int64_t>::min()}}},
      json{"shm", 3},
      json{"shm"},
      json{3, json::object()},
      json::object(),
      json(nullptr),
      json{"process", {{"key", {1, 2, 3}}}},
      json{"process", {{"key", {int64_t{1} << 40, 2}}}},
      json{"process", {{"exe", {{"!", {"io", 5}}}}}},
      json{"run", {{"plan", {{"start_method", "teleport"}}}}},
      json{"batch", {{"wait", std::numeric_limits<double>::quiet_NaN()}}},
      json{"batch", {{"wait", std::numeric_limits<double>::infinity()}}},
      json{"sample", {{"p", {{{"st", "DD"}}}}}},
      json{"sample", {{"p", {{{"waits", {{{"args", {1, 2}}}}}}}}}},
  };
  for (const json& item : wrong) {
    const auto decoded = decode_with(encode_record(RunBegin{}) + framed(item));
    ASSERT_FALSE(decoded) << item.dump();
    EXPECT_EQ(decoded.error().code, ErrorCode::kMalformed) << item.dump();
  }
}

TEST(RecordingCodec, HugeLengthsAndDeepNestingAreMalformed) {
  const std::vector<std::string> bodies = {
      std::string("\x9b\x7f\xff\xff\xff\xff\xff\xff\xff", 9),  // an array of 2^63 - 1
      std::string("\xbb\xff\xff\xff\xff\xff\xff\xff\xff", 9),  // a map of 2^64 - 1
      std::string("\x5b\xff\xff\xff\xff\xff\xff\xff\xff", 9),  // a byte string of 2^64 - 1
      std::string(100'000, '\x81'),                            // arrays in arrays
      std::string(100'000, '\x9f'),                            // the same, of indefinite length
      "\x9f\xff",
      std::string("\xc1\x00", 2),  // a tag
      "\x82",
      "\xff",
      std::string("\x00\x00", 2),  // two items
  };
  for (const std::string& body : bodies) {
    EXPECT_FALSE(decode_with(framed(std::string_view(body))));
  }
  EXPECT_FALSE(decode_with(std::string("\xff\xff\xff\x7f\0\0\0\0", 8)));
}

TEST(RecordingCodec, AHeaderThatWouldDivideByZeroIsRefused) {
  RecordingHeader header = filled_header();
  header.host.page_size = 0;
  EXPECT_FALSE(decode_recording(encode_header(header)));
}

TEST(RecordingCodec, ARecordOverTheLimitIsReplacedByAGap) {
  const std::string bytes = encode_record(Event{.at = 1,
                                                .kind = "note",
                                                .text = as_text(std::string(17U << 20U, 'x')),
                                                .process = std::nullopt});
  EXPECT_LT(bytes.size(), 1000U);
  const auto decoded = must(decode_with(encode_record(RunBegin{}) + bytes));
  EXPECT_EQ(decoded.runs.at(0).gaps.size(), 1U);
}

// A cheap relative of the fuzzer: flips in bodies whose checksum is right again.
TEST(RecordingCodec, FlippedBodiesNeverCrash) {
  std::mt19937 random(7);  // NOLINT(cert-msc51-cpp,cert-msc32-c): the same every time
  for (const Record& record : filled_records()) {
    const std::string whole = encode_record(record).substr(kFrameHeadBytes);
    for (int round = 0; round < 300; ++round) {
      std::string body = whole;
      body[random() % body.size()] = static_cast<char>(random());
      static_cast<void>(decode_with(encode_record(RunBegin{}) + framed(std::string_view(body))));
    }
  }
}

// What a long watch does with a file that grows too large: it goes on after a rewritten beginning.
TEST(RecordingCodec, ARewrittenFileReadsLikeTheWholeOne) {
  RecordingBuilder live(filled_header());
  std::string file = encode_header(filled_header());
  const auto add = [&](const Record& record) {
    live.add(record);
    file += encode_record(record);
  };
  add(RunBegin{});
  for (int tick = 0; tick < 4000; ++tick) {
    Sample sample;
    sample.at = tick * int64_t{100'000'000};
    ShmUse use = {.at = sample.at, .device = 1, .used_bytes = static_cast<uint64_t>(tick % 37)};
    sample.shm.emplace_back(use);
    add(sample);
    use.at += 50'000'000;
    use.used_bytes += static_cast<uint64_t>(tick % 5);
    add(use);
    if (tick == 2500) file = encode_recording(live.recording());
  }
  add(ProcessInfo{.key = {.pid = 42, .start_ticks = 99}});
  add(RunEnd{.at = 4000 * int64_t{100'000'000}});
  const auto decoded = must(decode_recording(file));
  EXPECT_TRUE(decoded.runs == live.recording().runs);
  EXPECT_EQ(decoded.thinned_records, live.recording().thinned_records);
  EXPECT_GT(decoded.thinned_records, 0U);
}

TEST(RecordingCodec, AFileThatIsWrittenAnewHoldsEveryKindOfRecord) {
  RecordingBuilder builder{RecordingHeader{}};
  for (Record record : filled_records())
    builder.add(std::move(record));
  const auto decoded = must(decode_recording(encode_recording(builder.recording())));
  EXPECT_TRUE(decoded.runs == builder.recording().runs);
}

}  // namespace
}  // namespace dlprobe
