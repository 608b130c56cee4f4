#include "lib/subject/crash_text.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lib/base/parse.h"
#include "lib/foreign/python_code.h"

namespace dlprobe {
namespace {

constexpr size_t kMostShown = 100;  // MAX_FRAME_DEPTH of Python/traceback.c

struct Frame {
  std::string_view file;
  int32_t line = 0;
  std::string_view function;
  bool operator==(const Frame&) const = default;
};

// "  File "/job/data.py", line 7 in load".
std::optional<Frame> frame_in(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  const size_t at = line.rfind(kLine);
  if (!line.starts_with(kFile) || at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + kLine.size());
  const size_t in = rest.find(kIn);
  const auto number = parse_int<int32_t>(rest.substr(0, in));
  if (in == std::string_view::npos || !number) return std::nullopt;
  return Frame{.file = line.substr(kFile.size(), at - kFile.size()),
               .line = *number,
               .function = rest.substr(in + kIn.size())};
}

// The frames of the thread that crashed, the innermost first; where that runs no Python, those of
// the one that is told last, which was there first. Nothing where some of them are left out ("...",
// after 100), and it is one of those.
struct Stack {
  std::vector<Frame> frames;
  bool is_of_another = false;
};

Stack stack_in(const std::vector<std::string_view>& lines) {
  Stack stack;
  bool is_current = false;
  for (const std::string_view line : lines) {
    const bool is_other = line.starts_with("Thread 0x");
    if (is_current && is_other && !stack.frames.empty()) break;
    if (line == "..." && !is_current) return {};
    if (is_other) {
      stack = {.is_of_another = true};
      is_current = false;
    } else if (line.starts_with("Current thread 0x")) {
      stack = {};
      is_current = true;
    } else if (const auto frame = frame_in(line)) {
      stack.frames.push_back(*frame);
    }
  }
  return stack;
}

// Whether one function fills what is shown of the stack, with itself or a few others.
bool is_recursion(const std::vector<Frame>& frames) {
  constexpr ptrdiff_t kOften = kMostShown / 10;
  if (frames.size() < kMostShown) return false;
  return std::ranges::count(frames, frames.front().function, &Frame::function) >= kOften;
}

}  // namespace

std::optional<StartEvent> parse_crash(std::string_view text) {
  constexpr std::string_view kFatal = "Fatal Python error: ";
  std::vector<std::string_view> lines = split(text, '\n');
  const auto fatal =
      std::ranges::find_if(lines, [&](std::string_view line) { return line.starts_with(kFatal); });
  if (fatal == lines.end() || fatal == lines.begin()) return std::nullopt;
  const std::string_view who = lines.front();
  const size_t space = who.find(' ');
  const auto pid = parse_int<int32_t>(who.substr(0, space));
  if (space == std::string_view::npos || !pid) return std::nullopt;
  const auto ticks = parse_int<uint64_t>(who.substr(space + 1));
  if (!ticks) return std::nullopt;
  StartEvent event{.kind = StartEventKind::kCrashed,
                   .process = {.pid = *pid, .start_ticks = *ticks},
                   .message = std::string(fatal->substr(kFatal.size()))};
  const auto next = std::find_if(fatal + 1, lines.end(),
                                 [&](std::string_view line) { return line.starts_with(kFatal); });
  const auto [frames, is_of_another] = stack_in({fatal, next});
  if (frames.empty()) return event;
  event.count = static_cast<int64_t>(frames.size());
  if (is_of_another) event.type = "elsewhere";
  if (!is_of_another && is_recursion(frames)) event.type = "recursion";
  const auto name = [](const Frame& frame) {
    return std::string(frame.file) + ":" + std::to_string(frame.line) + " " +
           std::string(frame.function);
  };
  event.raised_in = name(frames.front());
  const auto users =
      std::ranges::find_if(frames, [](const Frame& frame) { return !is_of_a_library(frame.file); });
  if (users == frames.end()) return event;
  event.file = users->file;
  event.line = users->line;
  event.function = users->function;
  return event;
}

}  // namespace dlprobe
