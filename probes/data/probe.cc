#include "probes/probe.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "probes/data/rules.h"
#include "probes/facts/seen.h"

namespace dlprobe::probes::data {
namespace {

Verdict examine_run(const RunCase& one) {
  Verdict verdict;
  verdict.findings = overwritten_batches(one.run);
  std::ranges::move(overwritten_tensors(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(overwritten_files(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(overwritten_samples(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(lost_bytes(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(repeated_samples(one.run), std::back_inserter(verdict.findings));
  if (auto missing = missing_samples(one.run)) verdict.findings.push_back(std::move(*missing));
  std::ranges::move(repeated_by_ranks(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(repeated_numbers(one), std::back_inserter(verdict.findings));
  std::ranges::move(unheard_settings(one.run), std::back_inserter(verdict.findings));
  std::ranges::move(repeated_epochs(one.run), std::back_inserter(verdict.findings));
  return verdict;
}

constexpr std::array<Cause, 6> kCauses = {{
    {FindingCode::kBatchOverwritten, saw_interpreters},
    {FindingCode::kDataLost, saw_interpreters},
    {FindingCode::kDataNotReadable, saw_interpreters},
    {FindingCode::kEpochsRepeated, saw_interpreters},
    {FindingCode::kRandomNumbersRepeated, saw_interpreters},
    {FindingCode::kSamplesRepeated, saw_interpreters},
}};

}  // namespace

// What is wrong with the data although nothing fails: workers that do alike what each is to do for
// itself, and batches that do not come as they were sent. What the witness told of them
// (dlprobe_data.py, dlprobe_random.py, dlprobe_batches.py, dlprobe_epochs.py) is compared.
const Probe kProbe = {.name = "data",
                      .summary =
                          "batches that are overwritten, samples that are None, samples and random "
                          "numbers that workers or epochs repeat",
                      .causes = kCauses,
                      .examine_run = examine_run,
                      .use = ProbeUse::kEnds};

}  // namespace dlprobe::probes::data
