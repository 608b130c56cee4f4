#include "tools/dlprobe/top/live_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

// Two looks a second apart tell what moves; the third sees what was torn.
constexpr ptrdiff_t kSnapshotsOfReport = 3;
// Nobody reads a screen that changes more often.
constexpr BootNs kDrawEvery = 450 * kMillisecond;
// Where stacks may not be looked at there are none.
constexpr BootNs kLongestForReport = 6 * kSecond;

constexpr std::string_view kKeys = "q quit  s stacks  r report  h keys  space pause";
constexpr std::string_view kKeysOfPage = "q back  arrows, space scroll";
constexpr std::string_view kHelp =
    R"(Keys
  q               quit
  arrows, j, k    select a process; Page Up, Page Down, Home, End
  s, Enter        Python and native stacks of the selected process
  r               write a report: watches for 3 s, then names the cause
  space           pause the screen; the job is still watched
  h, ?            this page

Sort by
  c  CPU          m  RSS          d  /dev/shm      f  descriptors
  p  pid          t  standstill   o  order of the job

Columns
  CPU%   of one CPU, over the last second
  RSS    resident memory; shared pages count in each process
  PSS    the same, with shared pages divided by those who share them;
         read seldom, because the kernel takes long
  shm    segments in /dev/shm that the process has open or mapped
  fds    open descriptors
  io/s   calls of read and write; each batch goes through a pipe
  still  for how long it has neither computed, read nor written
  state  what its main thread does
)";

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

}  // namespace

void LiveView::take(const Recording& recording) {
  bool has_changed = false;
  const Run& run = recording.runs.back();
  const BootNs newest = run.samples.empty() ? 0 : run.samples.back().at;
  if (newest - taken_at_ >= kDrawEvery || run.end) {
    taken_at_ = newest;
    job_.take(recording.header.host, run);
    if (!is_paused_ || run.end) picture_ = job_.picture();
    has_changed = true;
  }
  while (const auto key = screen_.key()) {
    take_key(*key);
    has_changed = true;
  }
  if (report_asked_at_ && is_report_due(run, *report_asked_at_)) {
    report_asked_at_.reset();
    open_page(actions_.report(recording, screen_.columns()));
    has_changed = true;
  }
  if (has_changed && !is_over_) draw();
}

void LiveView::take_key(char key) {
  message_.clear();
  if (key == kHangUp) {
    is_over_ = true;
  } else if (page_) {
    take_page_key(*page_, key);
  } else {
    switch (key) {
      case 'q':
        is_over_ = true;
        break;
      case 'k':
        return select(-1);
      case 'j':
        return select(1);
      case kPageUpKey:
        return select(-static_cast<ptrdiff_t>(page_lines()));
      case kPageDownKey:
        return select(static_cast<ptrdiff_t>(page_lines()));
      case 'g':
        return select(-static_cast<ptrdiff_t>(picture_.processes.size()));
      case 'G':
        return select(static_cast<ptrdiff_t>(picture_.processes.size()));
      case 's':
      case kEnterKey:
        return show_stacks();
      case 'r':
        report_asked_at_ = taken_at_;
        break;
      case ' ':
        is_paused_ = !is_paused_;
        break;
      case 'h':
      case '?':
        return open_page(ScreenText{.title = "dlprobe top", .text = std::string(kHelp)});
      default:
        take_sort_key(key);
    }
  }
}

void LiveView::take_sort_key(char key) {
  constexpr std::string_view kSortKeys = "ocmdfpt";
  const size_t index = kSortKeys.find(key);
  if (index == std::string_view::npos) return;
  sort_ = static_cast<TopSort>(index);
  message_ = fmt::format("sorted by {}", to_string(sort_));
}

void LiveView::take_page_key(Page& page, char key) {
  const size_t height = page_lines();
  const size_t last = page.lines.size() - std::min(page.lines.size(), height);
  switch (key) {
    case 'k':
      page.first -= std::min<size_t>(page.first, 1);
      break;
    case 'j':
    case kEnterKey:
      ++page.first;
      break;
    case kPageUpKey:
      page.first -= std::min(page.first, height);
      break;
    case kPageDownKey:
    case ' ':
      page.first += height;
      break;
    case 'g':
      page.first = 0;
      break;
    case 'G':
      page.first = last;
      break;
    case 'q':
    case kEscapeKey:
      page_.reset();
      return;
    default:
      break;
  }
  page.first = std::min(page.first, last);
}

void LiveView::select(ptrdiff_t steps) {
  const std::vector<TopProcess> rows = sorted_processes(picture_, sort_);
  if (rows.empty()) return;
  const auto found = std::ranges::find_if(
      rows, [&](const TopProcess& process) { return process.key == selected_; });
  const auto last = static_cast<ptrdiff_t>(rows.size()) - 1;
  // The first key selects the first row.
  const ptrdiff_t index = found == rows.end() ? 0 : found - rows.begin() + steps;
  selected_ = rows[static_cast<size_t>(std::clamp<ptrdiff_t>(index, 0, last))].key;
}

void LiveView::show_stacks() {
  if (!selected_) select(0);
  const auto& rows = picture_.processes;
  const auto found = std::ranges::find_if(
      rows, [&](const TopProcess& process) { return process.key == selected_; });
  if (found != rows.end()) open_page(actions_.stacks(*found, screen_.columns()));
}

bool LiveView::is_report_due(const Run& run, BootNs asked_at) {
  const auto looks = std::ranges::count_if(
      run.snapshots, [&](const TreeSnapshot& snapshot) { return snapshot.at > asked_at; });
  const bool is_late = !run.samples.empty() && run.samples.back().at - asked_at > kLongestForReport;
  return looks >= kSnapshotsOfReport || is_late || run.end.has_value();
}

void LiveView::open_page(Expected<ScreenText> text) {
  if (!text) {
    message_ = to_string(text.error());
    return;
  }
  page_ = Page{.title = std::move(text->title), .lines = split_lines(text->text)};
}

size_t LiveView::page_lines() const {
  constexpr size_t kTitleAndFooter = 2;
  return std::max(screen_.lines(), kTitleAndFooter + 1) - kTitleAndFooter;
}

std::string LiveView::footer() const {
  if (!message_.empty()) return message_;
  if (page_) return std::string(kKeysOfPage);
  if (report_asked_at_) return "watching for 3 s, to write a report";
  if (is_paused_) return "paused: space goes on";
  return std::string(kKeys);
}

std::vector<FrameLine> LiveView::page_frame(const Page& page) const {
  std::vector<FrameLine> lines = {{fit_columns(page.title, screen_.columns()), FrameStyle::kHead}};
  for (size_t i = page.first; i < page.lines.size() && lines.size() <= page_lines(); ++i)
    lines.push_back({fit_columns(page.lines[i], screen_.columns())});
  lines.resize(page_lines() + 1);
  lines.push_back({fit_columns(footer(), screen_.columns()), FrameStyle::kHead});
  return lines;
}

void LiveView::draw() const {
  screen_.draw(page_ ? page_frame(*page_)
                     : top_frame(picture_, {.columns = screen_.columns(),
                                            .lines = screen_.lines(),
                                            .sort = sort_,
                                            .selected = selected_,
                                            .footer = footer()}));
}

}  // namespace dlprobe
