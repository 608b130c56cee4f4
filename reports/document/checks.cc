// What was looked for, and what could not be seen.

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

Mark mark_of_check(std::string_view status) {
  if (status == "pass") return Mark::kPass;
  if (status == "fail") return Mark::kFail;
  return status == "skipped" ? Mark::kQuiet : Mark::kWarn;
}

bool has_named_checks(const Json& report) {
  const Json& checks = items_at(report, "checks");
  return !report.contains("nodes") && !checks.empty() &&
         std::ranges::all_of(checks, [](const Json& check) { return check.contains("text"); });
}

// "shm" of "shm.shm-too-small".
std::string probe_of(const Json& check) {
  const std::string id = text_at(check, "id");
  return id.substr(0, id.find('.'));
}

// Where several probes ran, the list would be longer than the rest.
void add_counts(Blocks& blocks, const Json& checks) {
  std::map<std::pair<std::string_view, bool>, uint64_t> counts;
  for (const Json& check : checks)
    ++counts[{field_of(text_at(check, "code")), text_at(check, "status") == "pass"}];
  for (const auto& [what, count] : counts) {
    const std::string_view seen = count == 1 ? "not seen" : "none of them seen";
    blocks.add(
        Paragraph{.text = spans(fmt::format("{}: {}, {}", what.first, counted(count, "known cause"),
                                            what.second ? seen : "cannot say"))},
        Readers::kText);
  }
  blocks.add(Paragraph{.text = spans("(each with -v)")}, Readers::kText);
}

void add_for_text(Blocks& blocks, const Json& report, bool is_all) {
  constexpr size_t kMost = 10;
  const Json& checks = items_at(report, "checks");
  if (has_named_checks(report) || report.contains("nodes")) return;
  if (checks.empty() || !items_at(report, "findings").empty()) return;
  const bool is_several = probe_of(checks.front()) != probe_of(checks.back());
  if (is_several && checks.size() > kMost && !is_all) return add_counts(blocks, checks);
  Table table = {.columns = {{.lead = 8}, {.lead = 12}, {}}, .is_lines = true};
  for (const Json& check : checks) {
    const bool is_pass = text_at(check, "status") == "pass";
    table.add(text_at(check, "code"), is_pass ? "not seen" : "cannot say", text_at(check, "title"));
  }
  blocks.add(std::move(table), Readers::kText);
}

// Each with how it came out.
Card card_of_checks(const Json& checks) {
  Table table = table_of({"Result", "Code", "What was looked for"}, 3, 1);
  for (const Json& check : checks) {
    const std::string status = text_at(check, "status");
    const std::string text = text_at(check, "text");
    table.add(Span{.text = status, .mark = mark_of_check(status)}, text_at(check, "code"),
              text_at(check, "title") + (text.empty() ? "" : ": " + text));
  }
  Card card = {.title = spans(counted(checks.size(), "check")), .fold = Fold::kClosed};
  card.blocks.add(std::move(table));
  return card;
}

struct AlikeGaps {
  const Json* first = nullptr;
  size_t others = 0;
};

std::string key_of_gap(const Json& gap) {
  std::string key;
  for (const char* part : {"what", "why", "effect", "remedy"})
    key += without_numbers(text_at(gap, part)) + '\n';
  return key;
}

std::vector<AlikeGaps> fold_gaps(const Json& gaps, bool is_all) {
  std::vector<AlikeGaps> folded;
  std::map<std::string, size_t> places;
  for (const Json& gap : gaps) {
    const auto [place, is_new] = places.try_emplace(key_of_gap(gap), folded.size());
    if (is_new || is_all) {
      folded.push_back({.first = &gap});
    } else {
      ++folded[place->second].others;
    }
  }
  return folded;
}

void add_gap(List& list, const AlikeGaps& alike) {
  const Json& gap = *alike.first;
  const std::string effect = text_at(gap, "effect");
  Item& item = list.add(
      strong(text_at(gap, "what")), ": " + text_at(gap, "why"),
      effect.empty() ? "" : ". Because of that: " + effect,
      alike.others == 0 ? "" : fmt::format(" (and {} like it)", counted(alike.others, "other")));
  const std::string remedy = text_at(gap, "remedy");
  if (!remedy.empty())
    item.blocks.add(Paragraph{.text = spans(remedy), .lead = "what would help:"});
}

}  // namespace

Section named_checks_of(const Json& report) {
  Section section = {.readers = Readers::kText, .is_titled_in_text = false};
  if (!has_named_checks(report)) return section;
  Table table = {.columns = {{.lead = 11}, {}}, .is_lines = true};
  for (const Json& check : items_at(report, "checks")) {
    const std::string status = text_at(check, "status");
    table.add(Span{.text = status, .mark = mark_of_check(status)},
              text_at(check, "id") + ": " + text_at(check, "text"));
  }
  section.blocks.add(std::move(table));
  return section;
}

Section checks_of(const Json& report, bool is_all) {
  Section section = {.id = "checks", .title = "Looked for"};
  add_for_text(section.blocks, report, is_all);
  if (section.blocks.empty()) section.readers = Readers::kPages;
  const Json& checks = items_at(report, "checks");
  if (!checks.empty()) section.blocks.add(card_of_checks(checks), Readers::kPages);
  return section;
}

Section limitations_of(const Json& document, bool is_all) {
  constexpr size_t kMost = 6;
  Section section = {.id = "unseen", .title = "What could not be seen"};
  const std::vector<AlikeGaps> folded = fold_gaps(items_at(document, "limitations"), is_all);
  List list = {.kind = ListKind::kBullets};
  size_t rest = 0;
  for (const AlikeGaps& alike : folded) {
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
