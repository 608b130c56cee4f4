// Any bytes as a recording file, and as the body of a record whose length and checksum are right:
// what a hostile file can reach. Whatever decodes must give a report.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "reports/document/render.h"
#include "tests/support/decode_recording.h"

namespace {

void append_word(std::string& file, uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    file += static_cast<char>(static_cast<unsigned char>(value >> shift));
  }
}

std::string with_frame(std::string file, std::string_view body) {
  uint32_t sum = 2166136261U;
  for (const char byte : body)
    sum = (sum ^ static_cast<unsigned char>(byte)) * 16777619U;
  append_word(file, static_cast<uint32_t>(body.size()));
  append_word(file, sum);
  return file + std::string(body);
}

void decode(std::string_view file) {
  const auto recording = dlprobe::decode_recording(file);
  if (!recording) return;
  const dlprobe::AnyReport report = dlprobe::examination_report(*recording, {}, {});
  static_cast<void>(dlprobe::render_text(report, {}));
  static_cast<void>(dlprobe::decode_recording(dlprobe::encode_recording(*recording)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  decode(bytes);
  const std::string head = dlprobe::encode_header({}) + dlprobe::encode_record(dlprobe::RunBegin{});
  decode(with_frame(head, bytes));
  return 0;
}
