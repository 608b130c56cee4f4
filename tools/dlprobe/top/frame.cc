#include "tools/dlprobe/top/frame.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>

#include "lib/base/escape.h"
#include "lib/base/units.h"
#include "lib/base/utf8.h"

namespace dlprobe {
namespace {

// What moves at all is met moving within this.
constexpr BootNs kStillFor = 2 * kSecond;
// A loader that is well moves more often.
constexpr BootNs kStandstill = 10 * kSecond;
// PSS is read seldom.
constexpr BootNs kOldPss = 5 * kSecond;
constexpr double kNearlyFull = 0.9;
// From here on a terminal may give a character two columns (Hangul, CJK, emoji).
constexpr uint32_t kFirstWide = 0x1100;

size_t columns_of_char(const Utf8Char& character) {
  return character.code_point >= kFirstWide ? 2 : 1;
}

// "64.0M", "1.9G": a column has no room for more.
std::string short_bytes(std::optional<uint64_t> bytes) {
  if (!bytes) return "-";
  const std::string text = format_bytes(*bytes);
  const size_t space = text.find(' ');
  return text.substr(0, space) + text.substr(space + 1, 1);
}

std::string short_count(std::optional<double> count) {
  return count ? fmt::format("{:.0f}", *count) : "-";
}

// "12 s", "35 min", "5 h", "3 d".
std::string short_duration(BootNs duration) {
  constexpr int64_t kMinute = 60 * kSecond;
  constexpr int64_t kHour = 60 * kMinute;
  constexpr int64_t kDay = 24 * kHour;
  if (duration < 2 * kMinute) return fmt::format("{} s", duration / kSecond);
  if (duration < 2 * kHour) return fmt::format("{} min", duration / kMinute);
  if (duration < 2 * kDay) return fmt::format("{} h", duration / kHour);
  return fmt::format("{} d", duration / kDay);
}

std::string who(const TopProcess& process) {
  if (process.role == Role::kTrainer)
    return process.rank ? fmt::format("rank {}", *process.rank) : "trainer";
  if (process.role == Role::kWorker)
    return process.index ? fmt::format(" worker {}", *process.index) : " worker";
  return std::string(to_string(process.role));
}

std::string still_text(const TopProcess& process) {
  if (!process.still) return "-";
  return *process.still < kStillFor ? "" : short_duration(*process.still);
}

std::string cpu_text(const TopProcess& process) {
  constexpr double kPercent = 100;
  return process.cpu ? fmt::format("{:.0f}", *process.cpu * kPercent) : "-";
}

std::optional<double> as_number(std::optional<uint64_t> count) {
  return count ? std::optional(static_cast<double>(*count)) : std::nullopt;
}

struct FrameColumn {
  std::string_view head;
  size_t width;  ///< with the gap behind it
  bool is_text;  ///< to the left
  size_t from;   ///< the narrowest screen that has room for it
  std::string (*cell)(const TopProcess&);
};
constexpr size_t kWideScreen = 100;
constexpr std::string_view kStillHead = "still";
constexpr auto kFrameColumns = std::to_array<FrameColumn>({
    {"process", 11, true, 0, who},
    {"", 7, true, kWideScreen, [](const TopProcess&) { return std::string(); }},
    {"pid", 8, false, 0, [](const TopProcess& p) { return std::to_string(p.key.pid); }},
    {"CPU%", 6, false, 0, cpu_text},
    {"RSS", 8, false, 0, [](const TopProcess& p) { return short_bytes(p.rss_bytes); }},
    {"PSS", 8, false, 80, [](const TopProcess& p) { return short_bytes(p.pss_bytes); }},
    {"shm", 8, false, 80, [](const TopProcess& p) { return short_bytes(p.shm_bytes); }},
    {"fds", 6, false, 80, [](const TopProcess& p) { return short_count(as_number(p.fds)); }},
    {"io/s", 8, false, kWideScreen, [](const TopProcess& p) { return short_count(p.io_rate); }},
    {kStillHead, 8, false, 0, still_text},
    {"state", 1, true, 0, [](const TopProcess& p) { return p.state; }},
});

// Cells are ASCII, of dlprobe's own words.
std::string padded(const std::string& text, const FrameColumn& column) {
  const std::string fitting = text.substr(0, column.width - 1);
  const std::string gap(column.width - 1 - fitting.size(), ' ');
  return (column.is_text ? fitting + gap : gap + fitting) + " ";
}

template <class Cell>
std::string row_of(const FrameWish& wish, const Cell& cell) {
  std::string row;
  for (const FrameColumn& column : kFrameColumns) {
    if (wish.columns < column.from || (wish.is_brief && column.head == kStillHead)) continue;
    const std::string text = cell(column);
    row += &column == &kFrameColumns.back() ? text : padded(text, column);
  }
  return row;
}

std::string title(const TopPicture& picture) {
  std::string age;
  if (picture.age) age = "up " + format_duration(std::chrono::nanoseconds(*picture.age)) + "  ";
  std::string command = fmt::format("{}", fmt::join(picture.command, " "));
  // A program that stands in the command line has many lines.
  std::ranges::replace(command, '\n', ' ');
  return fmt::format("{}  {}{}", picture.root_pid, age, command);
}

std::string counts_text(const TopPicture& picture) {
  size_t ranks = 0;
  size_t workers = 0;
  double cpu = 0;
  std::optional<uint64_t> pss = 0;
  BootNs pss_age = 0;
  for (const TopProcess& process : picture.processes) {
    if (process.has_ended) continue;
    ranks += process.role == Role::kTrainer && process.rank ? 1 : 0;
    workers += process.role == Role::kWorker ? 1 : 0;
    cpu += process.cpu.value_or(0);
    pss = pss && process.pss_bytes ? std::optional(*pss + *process.pss_bytes) : std::nullopt;
    pss_age = std::max(pss_age, process.pss_age.value_or(0));
  }
  std::string text = ranks > 0 ? counted(ranks, "rank") + ", " : "";
  text += counted(workers, "worker");
  text += fmt::format("   CPUs {:.1f}   PSS {}", cpu, short_bytes(pss));
  if (pss && pss_age >= kOldPss) text += fmt::format(" ({} old)", short_duration(pss_age));
  return text;
}

std::string use_text(std::string_view what, uint64_t used, std::optional<uint64_t> size) {
  if (!size || *size == 0) return fmt::format("{} {}", what, std::string(format_bytes(used)));
  constexpr double kPercent = 100;
  return fmt::format("{} {} of {} ({:.0f} %)", what, std::string(format_bytes(used)),
                     std::string(format_bytes(*size)),
                     kPercent * static_cast<double>(used) / static_cast<double>(*size));
}

bool is_nearly_full(uint64_t used, std::optional<uint64_t> size) {
  return size && *size > 0 && static_cast<double>(used) >= kNearlyFull * static_cast<double>(*size);
}

void add_limits(const TopPicture& picture, std::vector<FrameLine>& lines) {
  FrameLine line;
  const auto add = [&](std::string_view what, uint64_t used, std::optional<uint64_t> size) {
    line.text += (line.text.empty() ? "" : "   ") + use_text(what, used, size);
    if (is_nearly_full(used, size)) line.style = FrameStyle::kAlarm;
  };
  for (const ShmUse& use : picture.shm)
    add("/dev/shm", use.used_bytes, use.size_bytes);
  if (picture.memory_used_bytes)
    add("memory", *picture.memory_used_bytes, picture.memory_limit_bytes);
  if (!line.text.empty()) lines.push_back(std::move(line));
}

// For how long none of the loader's processes has moved; 0 where that is not known of one.
BootNs still_for(const TopPicture& picture) {
  std::optional<BootNs> least;
  for (const TopProcess& process : picture.processes) {
    if (process.role != Role::kTrainer && process.role != Role::kWorker) continue;
    if (process.has_ended) continue;
    least = std::min(least.value_or(INT64_MAX), process.still.value_or(0));
  }
  return least.value_or(0);
}

std::vector<FrameLine> head_of(const TopPicture& picture, const FrameWish& wish) {
  std::vector<FrameLine> lines = {{title(picture), FrameStyle::kHead}, {counts_text(picture)}};
  add_limits(picture, lines);
  const BootNs still = still_for(picture);
  if (!picture.end.empty()) {
    lines.push_back({fmt::format("ended ({})", picture.end), FrameStyle::kAlarm});
  } else if (still >= kStandstill) {
    lines.push_back({fmt::format("trainer and workers stand still for {}: r finds the cause",
                                 short_duration(still)),
                     FrameStyle::kAlarm});
  }
  const auto head = [&](const FrameColumn& column) { return std::string(column.head); };
  lines.push_back({row_of(wish, head), FrameStyle::kColumns});
  return lines;
}

FrameLine row_line(const TopProcess& process, const FrameWish& wish) {
  FrameLine line{.text =
                     row_of(wish, [&](const FrameColumn& column) { return column.cell(process); })};
  if (process.has_ended || process.state == "stopped") line.style = FrameStyle::kAlarm;
  if (process.key == wish.selected) line.style = FrameStyle::kSelected;
  return line;
}

}  // namespace

std::string fit_columns(std::string_view text, size_t columns) {
  const auto is_harmless = [](char character) { return character >= ' ' && character <= '~'; };
  if (std::ranges::all_of(text, is_harmless)) return std::string(text.substr(0, columns));
  std::string safe = escape_for_terminal(text);
  size_t width = 0;
  for (size_t bytes = 0; bytes < safe.size();) {
    const Utf8Char character = decode_utf8(std::string_view(safe).substr(bytes));
    width += columns_of_char(character);
    if (width > columns) return safe.substr(0, bytes);
    bytes += character.bytes;
  }
  return safe;
}

std::vector<TopProcess> sorted_processes(const TopPicture& picture, TopSort sort) {
  std::vector<TopProcess> rows = picture.processes;
  switch (sort) {
    case TopSort::kJob:
      break;
    case TopSort::kCpu:
      std::ranges::stable_sort(rows, std::greater(), &TopProcess::cpu);
      break;
    case TopSort::kRss:
      std::ranges::stable_sort(rows, std::greater(), &TopProcess::rss_bytes);
      break;
    case TopSort::kShm:
      std::ranges::stable_sort(rows, std::greater(), &TopProcess::shm_bytes);
      break;
    case TopSort::kFds:
      std::ranges::stable_sort(rows, std::greater(), &TopProcess::fds);
      break;
    case TopSort::kPid:
      std::ranges::stable_sort(rows, {}, &TopProcess::key);
      break;
    case TopSort::kState:
      std::ranges::stable_sort(rows, std::greater(), &TopProcess::still);
      break;
  }
  return rows;
}

std::vector<FrameLine> top_frame(const TopPicture& picture, const FrameWish& wish) {
  std::vector<FrameLine> lines = head_of(picture, wish);
  const std::vector<TopProcess> rows = sorted_processes(picture, wish.sort);
  size_t first = 0;
  size_t shown = rows.size();
  if (wish.lines > 0) {
    const size_t taken = lines.size() + 1;
    shown = std::min(shown, wish.lines > taken ? wish.lines - taken : 0);
    const auto selected = std::ranges::find_if(
        rows, [&](const TopProcess& process) { return process.key == wish.selected; });
    const auto index = selected == rows.end() ? 0 : static_cast<size_t>(selected - rows.begin());
    first = std::min(index - std::min(index, shown / 2), rows.size() - shown);
  }
  for (size_t i = first; i < first + shown; ++i)
    lines.push_back(row_line(rows[i], wish));
  if (wish.lines > 0) {
    lines.resize(wish.lines);
    lines.back() = {wish.footer, FrameStyle::kHead};
  }
  for (FrameLine& line : lines)
    line.text = fit_columns(line.text, wish.columns);
  return lines;
}

}  // namespace dlprobe
