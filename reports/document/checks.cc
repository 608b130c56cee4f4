// What was checked, and what could not be seen.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "lib/base/units.h"
#include "lib/model/finding.h"
#include "reports/document/builders.h"
#include "reports/document/frame_text.h"
#include "reports/document/text_layout.h"

namespace dlprobe::document {
namespace {

Mark mark_of_check(CheckStatus status) {
  if (status == CheckStatus::kPass) return Mark::kPass;
  if (status == CheckStatus::kFail) return Mark::kFail;
  return status == CheckStatus::kSkipped ? Mark::kQuiet : Mark::kWarn;
}

// What needs a person first.
int place_of(CheckStatus status) {
  if (status == CheckStatus::kFail || status == CheckStatus::kWarn) return 0;
  return status == CheckStatus::kPass ? 2 : 1;
}

void add_for_text(Blocks& blocks, const AnyReport& any) {
  const std::vector<report::Check>& checks = any.report.checks;
  if (any.cluster || has_named_checks(any.report)) return;
  if (checks.empty() || !any.report.findings.empty()) return;
  Table table = {.columns = {{.lead = 8}, {.lead = 12}, {}}, .is_lines = true};
  for (const report::Check& check : checks) {
    const bool is_pass = check.status == CheckStatus::kPass;
    table.add(shown(check.code), is_pass ? "not seen" : "not checked", shown(check.title));
  }
  blocks.add(std::move(table), Readers::kText);
}

Span status_of(const report::Check& check) {
  return {.text = shown(check.status), .mark = mark_of_check(check.status)};
}

// Each with how it came out.
Card card_of_checks(const std::vector<report::Check>& checks) {
  Table table = table_of({"Result", "Code", "What was checked"}, 3, 1);
  for (const report::Check& check : checks)
    table.add(status_of(check), shown(check.code), shown(check.title));
  Card card = {.title = spans(counted(checks.size(), "check")), .fold = Fold::kClosed};
  card.blocks.add(std::move(table));
  return card;
}

// Those that did not pass first; the others are folded where any failed.
void add_named_checks(Blocks& blocks, std::vector<report::Check> checks) {
  std::ranges::stable_sort(checks, [](const report::Check& a, const report::Check& b) {
    return place_of(a.status) < place_of(b.status);
  });
  Table others = table_of({"Result", "Check", "What was looked for", "What was seen"}, 4, 4);
  Table passed = others;
  for (const report::Check& check : checks) {
    Table& table = check.status == CheckStatus::kPass ? passed : others;
    const Span name = {.text = shown(check.id), .mark = Mark::kCode, .hint = shown(check.code)};
    table.add(status_of(check), name, shown(check.title), shown(check.text));
  }
  const bool has_failed = !checks.empty() && place_of(checks.front().status) == 0;
  Card card = {.title = spans(fmt::format("{} passed", counted(passed.rows.size(), "check"))),
               .fold = has_failed ? Fold::kClosed : Fold::kOpen};
  if (!others.rows.empty()) blocks.add(std::move(others), Readers::kPages);
  if (passed.rows.empty()) return;
  card.blocks.add(std::move(passed));
  blocks.add(std::move(card), Readers::kPages);
}

struct AlikeGaps {
  const report::Gap* first = nullptr;
  size_t others = 0;
};

std::vector<AlikeGaps> fold_gaps(const std::vector<report::Gap>& gaps, bool is_all) {
  std::vector<AlikeGaps> folded;
  std::map<std::string, size_t> places;
  for (const report::Gap& gap : gaps) {
    const std::string key =
        fmt::format("{}\n{}\n{}\n{}", gap.what, gap.why, gap.effect, gap.remedy);
    const auto [place, is_new] = places.try_emplace(without_numbers(key), folded.size());
    if (is_new || is_all) {
      folded.push_back({.first = &gap});
    } else {
      ++folded[place->second].others;
    }
  }
  return folded;
}

void add_gap(List& list, const AlikeGaps& alike) {
  const report::Gap& gap = *alike.first;
  const std::string effect = shown(gap.effect);
  Item& item = list.add(
      strong(shown(gap.what)), ": " + shown(gap.why), effect.empty() ? "" : ". So " + effect,
      alike.others == 0 ? "" : fmt::format(" (and {} like it)", counted(alike.others, "other")));
  const std::string remedy = shown(gap.remedy);
  if (!remedy.empty())
    item.blocks.add(Paragraph{.text = spans(remedy), .lead = "what would help:"});
}

}  // namespace

bool has_named_checks(const report::Report& report) {
  return !report.checks.empty() && std::ranges::all_of(report.checks, [](const auto& check) {
    return check.text.has_value();
  });
}

Section named_checks_of(const report::Report& report) {
  Section section = {.readers = Readers::kText, .is_titled_in_text = false};
  if (!has_named_checks(report)) return section;
  Table table = {.columns = {{.lead = 11}, {}}, .is_lines = true};
  for (const report::Check& check : report.checks)
    table.add(status_of(check), shown(check.id) + ": " + shown(check.text));
  section.blocks.add(std::move(table));
  return section;
}

Section checks_of(const AnyReport& any) {
  Section section = {.id = "checks", .title = "Looked for"};
  add_for_text(section.blocks, any);
  if (section.blocks.empty()) section.readers = Readers::kPages;
  const std::vector<report::Check>& checks = any.report.checks;
  if (has_named_checks(any.report)) {
    section.title = "Checks";
    add_named_checks(section.blocks, checks);
  } else if (!checks.empty()) {
    section.blocks.add(card_of_checks(checks), Readers::kPages);
  }
  return section;
}

Section limitations_of(const std::vector<report::Gap>& gaps, bool is_all) {
  constexpr size_t kMost = 6;
  Section section = {.id = "unseen", .title = "What could not be seen"};
  List list = {.kind = ListKind::kBullets};
  size_t rest = 0;
  for (const AlikeGaps& alike : fold_gaps(gaps, is_all)) {
    if (is_all || list.items.size() < kMost) {
      add_gap(list, alike);
    } else {
      rest += 1 + alike.others;
    }
  }
  if (rest > 0) list.add(fmt::format("and {} more, with -v", rest));
  if (!list.items.empty()) section.blocks.add(std::move(list));
  return section;
}

}  // namespace dlprobe::document
