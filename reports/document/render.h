#pragma once

#include <string>

#include "reports/model/report.h"

namespace dlprobe {

struct TextOptions {
  bool color = false;
  int width = 100;    ///< columns
  int verbosity = 0;  ///< -1: the verdict line only; 1: all evidence
};

/// For people: the verdict first, then cause, proof, remedy, then the tables. All hostile text
/// escaped.
std::string render_text(const AnyReport& report, const TextOptions& options);

/// For people: per process its threads, their frames innermost first; alike threads and alike
/// processes folded. All hostile text escaped.
std::string render_stacks(const report::Stacks& stacks, const TextOptions& options);

/// For a ticket or a pull request: GitHub flavoured, without HTML. The graph as Mermaid text.
std::string render_markdown(const AnyReport& report);

/// One file to open in a browser: no network, no third party.
std::string render_html(const AnyReport& report);

}  // namespace dlprobe
