#include "probes/probe.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "probes/data/rules.h"
#include "probes/facts/seen.h"

namespace dlprobe::probes::data {
namespace {

Verdict examine_run(const RunCase& one) {
  Verdict verdict;
  verdict.findings = repeated_samples(one.run);
  std::ranges::move(repeated_by_ranks(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(repeated_numbers(one.run), std::back_inserter(verdict.findings));
  return verdict;
}

constexpr std::array<Cause, 2> kCauses = {{
    {FindingCode::kRandomNumbersRepeated, saw_interpreters},
    {FindingCode::kSamplesRepeated, saw_interpreters},
}};

}  // namespace

// Whether the workers of a loader do alike what each is to do for itself, which no failure tells
// of. What they told of it (dlprobe_data.py) is compared.
const Probe kProbe = {.name = "data",
                      .summary = "samples and random numbers that workers repeat",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .use = ProbeUse::kEnds};

}  // namespace dlprobe::probes::data
