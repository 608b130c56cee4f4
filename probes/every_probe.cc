#include "probes/every_probe.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace dlprobe {
namespace {

// The surer of two accounts of one cause stays.
void add_finding(std::vector<Finding>& all, Finding finding) {
  const auto same = std::ranges::find_if(all, [&](const Finding& each) {
    return each.code == finding.code && each.discriminator == finding.discriminator &&
           each.runs == finding.runs;
  });
  if (same == all.end()) {
    all.push_back(std::move(finding));
  } else if (std::pair(finding.severity, finding.confidence) >
             std::pair(same->severity, same->confidence)) {
    *same = std::move(finding);
  }
}

void order(std::vector<Finding>& findings) {
  const auto rank = [](const Finding& finding) {
    return std::tuple(-static_cast<int>(finding.severity), finding.consequence_of.has_value(),
                      -static_cast<int>(finding.confidence));
  };
  std::ranges::stable_sort(findings, {}, rank);
}

Verdict examine(const Recording& recording) {
  std::vector<Verdict> verdicts;
  for (const Probe* probe : all_probes())
    verdicts.push_back(probe->examine(recording));
  return merge_verdicts(std::move(verdicts));
}

}  // namespace

Verdict merge_verdicts(std::vector<Verdict> verdicts) {
  Verdict all;
  for (Verdict& verdict : verdicts) {
    for (Finding& finding : verdict.findings)
      add_finding(all.findings, std::move(finding));
    for (Gap& gap : verdict.gaps) {
      if (std::ranges::count(all.gaps, gap) == 0) all.gaps.push_back(std::move(gap));
    }
    std::ranges::move(verdict.limits, std::back_inserter(all.limits));
    std::ranges::move(verdict.wait_graphs, std::back_inserter(all.wait_graphs));
  }
  order(all.findings);
  // Where the cause is known, what else might have been looked for does not matter.
  if (!all.findings.empty() && all.findings.front().severity == Severity::kError)
    all.limits.clear();
  return all;
}

const Probe& every_probe() {
  static constexpr Probe kEvery = {.name = "attach",
                                   .summary = "every probe on a live process tree; a verdict",
                                   .examine = examine,
                                   .needs_snapshots = true};
  return kEvery;
}

const Probe* find_examiner(std::string_view name) {
  return name == every_probe().name ? &every_probe() : find_probe(name);
}

}  // namespace dlprobe
