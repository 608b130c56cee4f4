#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/names.h"
#include "lib/model/ids.h"
#include "tools/dlprobe/top/job_picture.h"

namespace dlprobe {

/// By what the rows of a frame are sorted: what is most comes first.
enum class TopSort {
  kJob,  ///< as the job has them: ranks, each with its workers
  kCpu,
  kRss,
  kShm,
  kFds,
  kPid,    ///< the smallest first
  kState,  ///< what stands still for longest first
};
template <>
struct Names<TopSort> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"job", "CPU", "RSS", "/dev/shm", "descriptors", "pid", "standstill"});
};

/// How a line is drawn.
enum class FrameStyle {
  kPlain,
  kHead,      ///< bold
  kColumns,   ///< the heads of the columns
  kSelected,  ///< the row that the keys act on
  kAlarm,     ///< bold, and red where there are colours
};

/// One line of a screen. Its text is safe for a terminal and no wider than was asked for.
struct FrameLine {
  std::string text;
  FrameStyle style = FrameStyle::kPlain;
  bool operator==(const FrameLine&) const = default;
};

/// What a frame is to look like.
struct FrameWish {
  size_t columns = 80;
  size_t lines = 0;  ///< of the screen; 0: as many as there are
  TopSort sort = TopSort::kJob;
  std::optional<ProcessKey> selected;
  std::string footer;     ///< the last line of a screen
  bool is_brief = false;  ///< it was watched for too short a time to tell what stands still
};

/// The rows of a frame from top to bottom.
std::vector<TopProcess> sorted_processes(const TopPicture& picture, TopSort sort);

/// A screen that shows the job. With too few lines for all rows those around the selected one.
std::vector<FrameLine> top_frame(const TopPicture& picture, const FrameWish& wish);

/// `text` in at most `columns` columns, with everything that could act on a terminal escaped.
std::string fit_columns(std::string_view text, size_t columns);

}  // namespace dlprobe
