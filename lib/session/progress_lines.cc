#include "lib/session/progress_lines.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "lib/subject/told_lines.h"

namespace dlprobe {

ProgressLines::ProgressLines(UniqueFd pipe, const Clock& clock, RecordSink& sink)
    : pipe_(std::move(pipe)), clock_(clock), sink_(sink), last_came_(clock.now()) {}

void ProgressLines::read() {
  std::array<char, 16384> buffer{};
  const ssize_t count = ::read(pipe_.get(), buffer.data(), buffer.size());
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) return pipe_.reset();
  lines_.add({buffer.data(), static_cast<size_t>(count)},
             [this](std::string_view line) { take_line(line); });
}

void ProgressLines::take_line(std::string_view line) {
  auto record = parse_progress_line(line);
  last_came_ = clock_.now();
  if (!record) {
    sink_.add(Event{.at = last_came_, .kind = "note", .text = as_text(to_string(record.error()))});
    return;
  }
  if (std::holds_alternative<LoaderBatch>(*record)) ++batches_;
  sink_.add(std::move(*record));
}

}  // namespace dlprobe
