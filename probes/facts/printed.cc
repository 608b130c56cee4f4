#include "probes/facts/printed.h"

#include <algorithm>

#include "lib/model/log_text.h"
#include "probes/facts/facts.h"

namespace dlprobe {
namespace {

bool bears_out(const Event& event, FindingCode code) {
  if (event.kind != kLogLine) return false;
  const KnownText* known = find_known_text(event.text.plain());
  return known != nullptr && std::ranges::find(known->codes, code) != known->codes.end();
}

}  // namespace

void add_printed_lines(const RecordingView& recording, Verdict& verdict) {
  for (Finding& finding : verdict.findings) {
    for (const int run : finding.runs) {
      const auto& events = recording.runs[static_cast<size_t>(run)].events;
      const auto line = std::ranges::find_if(
          events, [&](const Event& event) { return bears_out(event, finding.code); });
      if (line == events.end()) continue;
      finding.prove(
          text_fact("printed", line->text, "what the job wrote to its standard error", line->at));
      break;
    }
  }
}

}  // namespace dlprobe
