#include "lib/collect/tree/log_watch.h"

#include <string_view>

#include "lib/base/secrets.h"
#include "lib/model/log_text.h"

namespace dlprobe {
namespace {

constexpr size_t kPiece = size_t{64} << 10U;
constexpr int kMostPieces = 16;  // at one call: a job that prints a lot is not followed for ever
constexpr size_t kLongestLine = 300;
constexpr int kMostEvents = 50;

}  // namespace

void LogWatch::read(RecordSink& sink, BootNs now) {
  for (int piece = 0; piece < kMostPieces && emitted_ < kMostEvents; ++piece) {
    const std::string bytes = file_.read_new(kPiece);
    if (bytes.empty()) return;
    lines_.add(bytes, [&](std::string_view line) { take_line(line, sink, now); });
  }
}

void LogWatch::take_line(std::string_view line, RecordSink& sink, BootNs now) {
  if (emitted_ >= kMostEvents || find_known_text(line) == nullptr) return;
  ++emitted_;
  const std::string shown(line.substr(0, kLongestLine));
  sink.add(Event{
      .at = now, .kind = std::string(kLogLine), .text = as_text(mask_secrets({shown}).front())});
}

}  // namespace dlprobe
