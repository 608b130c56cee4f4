#include "reports/text_limitations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "lib/base/units.h"
#include "reports/frame_text.h"

namespace dlprobe {
namespace {

struct Alike {
  const Json* first = nullptr;
  size_t others = 0;
};

std::string fold_key(const Json& gap) {
  std::string key;
  for (const char* part : {"what", "why", "effect", "remedy"})
    key += without_numbers(text_at(gap, part)) + '\n';
  return key;
}

std::vector<Alike> fold(const Json& gaps, bool is_all) {
  std::vector<Alike> folded;
  std::map<std::string, size_t> places;
  for (const Json& gap : gaps) {
    const auto [place, is_new] = places.try_emplace(fold_key(gap), folded.size());
    if (is_new || is_all) {
      folded.push_back({.first = &gap});
    } else {
      ++folded[place->second].others;
    }
  }
  return folded;
}

void write_one(TextPage& page, const Alike& alike) {
  const Json& gap = *alike.first;
  std::string text = fmt::format("{}: {}", text_at(gap, "what"), text_at(gap, "why"));
  const std::string effect = text_at(gap, "effect");
  if (!effect.empty()) text += ". Because of that: " + effect;
  if (alike.others > 0) text += fmt::format(" (and {} like it)", counted(alike.others, "other"));
  page.paragraph("  - ", text);
  const std::string remedy = text_at(gap, "remedy");
  if (!remedy.empty()) page.paragraph("    what would help: ", remedy);
}

}  // namespace

void write_limitations(TextPage& page, const Json& document) {
  constexpr size_t kMost = 6;
  const bool is_all = page.options().verbosity > 0;
  const std::vector<Alike> folded = fold(items_at(document, "limitations"), is_all);
  if (folded.empty()) return;
  page.heading("What could not be seen");
  const size_t shown = is_all ? folded.size() : std::min(folded.size(), kMost);
  size_t rest = 0;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (i < shown) {
      write_one(page, folded[i]);
    } else {
      rest += 1 + folded[i].others;
    }
  }
  if (rest > 0) page.paragraph("  - ", fmt::format("and {} more, with -v", rest));
}

}  // namespace dlprobe
