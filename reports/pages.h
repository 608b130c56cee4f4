#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "reports/document/render.h"

namespace dlprobe {

/// A finding whose page speaks of what a person typed.
struct PageMatch {
  FindingCode code{};
  double score = 0;       ///< how much of it; comparable within one answer
  bool has_text = false;  ///< it quotes an error text of that kind, and has not just the words
};

/// The findings that `text` may mean, best first: an error text that PyTorch or Python prints, the
/// words of a question. None where no page shares more with it than common words. An answer to a
/// person's own question, and never part of a verdict: anybody may print anything.
std::vector<PageMatch> find_pages(std::string_view text);

/// A row of README's table of what to type.
struct CommandRow {
  std::string what;     ///< happened, or is asked
  std::string command;  ///< to type then
};

/// The commands that README names for what `text` asks, best first, two at the most.
std::vector<CommandRow> find_commands(std::string_view text);

/// Whether Markdown's marks are kept: a person at a terminal does not want them.
enum class PageMarks { kKeep, kRemove };

/// The page of a finding, wrapped at the width of `options`.
std::string render_page(FindingCode code, const TextOptions& options, PageMarks marks);

}  // namespace dlprobe
