#include "reports/pages.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "lib/base/lower_case.h"
#include "lib/base/parse.h"
#include "lib/model/log_text.h"
#include "reports/asked_texts.h"
#include "reports/document/text_page.h"
#include "reports/model/report.h"

namespace dlprobe {
namespace {

constexpr size_t kLongestQuestion = 2048;  ///< bytes; a log that was pasted whole is cut

bool is_digits(std::string_view word) {
  return word.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Lower-case words, "workers" as "worker". Single letters stand for something else ("pid N").
std::vector<std::string> plain_words(std::string_view text) {
  std::string blank_for_others = lower_case(text);
  std::ranges::replace_if(
      blank_for_others, [](unsigned char c) { return std::isalnum(c) == 0; }, ' ');
  std::vector<std::string> words;
  for (std::string_view word : split_fields(blank_for_others)) {
    if (word.size() > 3 && word.ends_with('s') && !word.ends_with("ss")) word.remove_suffix(1);
    if (word.size() > 1) words.emplace_back(word);
  }
  return words;
}

/// Without numbers, which differ from case to case.
std::vector<std::string> words_alone(std::string_view text) {
  std::vector<std::string> words = plain_words(text);
  std::erase_if(words, [](const std::string& word) { return is_digits(word); });
  return words;
}

/// What stands in `text` between two of `mark`.
void add_quoted(std::string_view text, char mark, std::vector<std::vector<std::string>>& quotes) {
  for (size_t begin = text.find(mark); begin != std::string_view::npos;) {
    const size_t end = text.find(mark, begin + 1);
    if (end == std::string_view::npos) return;
    auto words = words_alone(text.substr(begin + 1, end - begin - 1));
    if (words.size() > 1) quotes.push_back(std::move(words));
    begin = text.find(mark, end + 1);
  }
}

std::string_view page_section(std::string_view page, std::string_view heading) {
  const size_t begin = page.find(heading);
  if (begin == std::string_view::npos) return {};
  return page.substr(begin, page.find("\n## ", begin + 1) - begin);
}

/// The words of a page by how much they say of it, and the error texts that it quotes.
struct PageWords {
  FindingCode code{};
  std::map<std::string, double> weights;
  std::vector<std::vector<std::string>> quotes;
};

PageWords words_of_page(const FindingInfo& finding) {
  constexpr double kOfTitle = 2;
  constexpr double kOfMeaning = 1;
  constexpr double kOfOthers = 0.5;
  const std::string_view page = finding_page(finding.id);
  const std::string_view meaning = page_section(page, "\n## What it means");
  PageWords result{.code = finding.id};
  const auto add = [&](std::string_view text, double weight) {
    for (const std::string& word : plain_words(text)) {
      double& known = result.weights[word];
      known = std::max(known, weight);
    }
  };
  add(finding.name, kOfTitle);
  add(finding.title, kOfTitle);
  add(meaning, kOfMeaning);
  add(page, kOfOthers);
  for (const char mark : {'`', '*', '"'})
    add_quoted(meaning, mark, result.quotes);
  return result;
}

/// How many words in a row both have; of two texts of ours, so the square of a few dozen.
size_t longest_common_run(const std::vector<std::string>& one,
                          const std::vector<std::string>& other) {
  size_t longest = 0;
  for (size_t i = 0; i < one.size(); ++i) {
    for (size_t j = 0; j < other.size(); ++j) {
      size_t run = 0;
      while (i + run < one.size() && j + run < other.size() && one[i + run] == other[j + run])
        ++run;
      longest = std::max(longest, run);
    }
  }
  return longest;
}

/// How much of an error text of the page stands in `typed`, from 0 to 1: four words in a row, or
/// all of one of them.
double quoted_share(const PageWords& page, const std::vector<std::string>& typed) {
  constexpr size_t kFew = 4;
  double most = 0;
  for (const std::vector<std::string>& quote : page.quotes) {
    const size_t run = longest_common_run(quote, typed);
    if (run < std::min({quote.size(), std::max<size_t>(typed.size(), 2), kFew})) continue;
    // Two words of a longer text may stand in any sentence.
    if (run < kFew && 2 * run < typed.size()) continue;
    most = std::max(most, static_cast<double>(run) / static_cast<double>(quote.size()));
  }
  return most;
}

/// How well the page answers by its place among `asked`; 0: it has none.
double score_of_place(std::span<const FindingCode> asked, FindingCode code) {
  constexpr double kFirst = 100;
  constexpr double kEachNext = 0.85;
  const auto place = std::ranges::find(asked, code);
  if (place == asked.end()) return 0;
  return kFirst * std::pow(kEachNext, static_cast<double>(place - asked.begin()));
}

/// A row of README's table, and the words of what it is for.
struct RowWords {
  CommandRow row;
  std::set<std::string> words;
};

std::vector<RowWords> readme_rows() {
  std::vector<RowWords> rows;
  for_each_line(readme(), [&](std::string_view line) {
    const auto cells = split(line, '|');
    constexpr size_t kCells = 5;  // with what is before the first mark and behind the last
    if (cells.size() != kCells || !cells[2].starts_with(" `dlprobe ")) return;
    const std::string_view command = cells[2].substr(2, cells[2].find('`', 2) - 2);
    if (command.starts_with("dlprobe explain")) return;
    const auto words = words_alone(cells[1]);
    rows.push_back({.row = {.what = std::string(trim(cells[1])), .command = std::string(command)},
                    .words = {words.begin(), words.end()}});
  });
  for (RowWords& each : rows)
    std::erase(each.row.what, '`');
  return rows;
}

class PageSearch {
 public:
  explicit PageSearch(std::string_view text)
      : text_(text.substr(0, kLongestQuestion)), row_(words_alone(text_)) {
    for (const FindingInfo& finding : all_findings())
      pages_.push_back(words_of_page(finding));
    for (const std::string& word : plain_words(text_)) {
      if (is_digits(word) && word.size() > 3) continue;
      words_.insert(word);
    }
  }

  std::vector<PageMatch> answer() const {
    std::vector<PageMatch> matches;
    const double least = std::max(kLeast, kShare * rarity_of_all());
    const std::span<const FindingCode> asked = asked_codes(text_);
    for (const PageWords& page : pages_) {
      const double of_texts = score_of_texts(page);
      const double of_words = score_of_words(page);
      if (const double of_place = score_of_place(asked, page.code); of_place > 0) {
        matches.push_back({.code = page.code, .score = of_place, .has_text = true});
      } else if (of_texts > 0 || (are_known() && of_words >= least)) {
        matches.push_back(
            {.code = page.code, .score = of_texts + of_words, .has_text = of_texts > 0});
      }
    }
    std::ranges::stable_sort(matches, std::ranges::greater(), &PageMatch::score);
    // What is far behind the best shares common words with the question and no more.
    std::erase_if(matches, [best = matches.empty() ? 0 : matches.front().score](
                               const PageMatch& match) { return match.score < kFarBehind * best; });
    return matches;
  }

  std::vector<CommandRow> commands() const {
    constexpr double kLeastOfRow = 1.5;
    constexpr double kNearBest = 0.8;
    constexpr size_t kMost = 2;
    const std::vector<RowWords> rows = readme_rows();
    std::vector<std::pair<double, const CommandRow*>> scores;
    scores.reserve(rows.size());
    for (const RowWords& each : rows)
      scores.emplace_back(score_of_row(each, rows), &each.row);
    std::ranges::stable_sort(scores, std::ranges::greater(),
                             [](const auto& it) { return it.first; });
    std::vector<CommandRow> result;
    for (const auto& [score, row] : scores) {
      if (score < kLeastOfRow || score < kNearBest * scores.front().first) break;
      if (result.size() < kMost) result.push_back(*row);
    }
    return result;
  }

 private:
  static constexpr double kLeast = 1;    ///< what one word says that is in a third of the pages
  static constexpr double kShare = 0.6;  ///< of what the typed words say
  static constexpr double kFarBehind = 0.4;

  /// What a word says: the more, the fewer pages have it.
  double rarity(const std::string& word) const {
    const auto has = std::ranges::count_if(
        pages_, [&](const PageWords& page) { return page.weights.contains(word); });
    if (has == 0) return 0;
    return std::log(static_cast<double>(pages_.size()) / static_cast<double>(has));
  }

  double rarity_of_all() const {
    double sum = 0;
    for (const std::string& word : words_)
      sum += rarity(word);
    return sum;
  }

  /// Whether pages know at least half of the words: the rest is a person's own names.
  bool are_known() const {
    const auto known =
        std::ranges::count_if(words_, [&](const std::string& word) { return rarity(word) > 0; });
    return 2 * static_cast<size_t>(known) >= words_.size();
  }

  double score_of_words(const PageWords& page) const {
    double sum = 0;
    for (const std::string& word : words_) {
      const auto found = page.weights.find(word);
      if (found != page.weights.end()) sum += rarity(word) * found->second;
    }
    return sum;
  }

  /// A word says little of a row where many rows or many pages have it.
  double score_of_row(const RowWords& row, const std::vector<RowWords>& rows) const {
    double sum = 0;
    for (const std::string& word : words_) {
      if (!row.words.contains(word)) continue;
      const auto has = std::ranges::count_if(
          rows, [&](const RowWords& other) { return other.words.contains(word); });
      const double of_rows = std::log(static_cast<double>(rows.size()) / static_cast<double>(has));
      const double of_pages = rarity(word);
      sum += of_pages == 0 && !is_of_pages(word) ? of_rows : std::min(of_rows, of_pages);
    }
    return sum;
  }

  bool is_of_pages(const std::string& word) const {
    return std::ranges::any_of(pages_,
                               [&](const PageWords& page) { return page.weights.contains(word); });
  }

  double score_of_texts(const PageWords& page) const {
    constexpr double kQuoted = 20;
    double sum = kQuoted * quoted_share(page, row_);
    const KnownText* known = find_known_text(text_);
    if (known != nullptr && std::ranges::count(known->codes, page.code) > 0) sum += kQuoted;
    return sum;
  }

  std::string_view text_;
  std::vector<std::string> row_;  ///< in their order
  std::set<std::string> words_;
  std::vector<PageWords> pages_;
};

/// Whether a star is emphasis: "*likely*", and not "2 * 3".
bool is_emphasis(std::string_view text, size_t at) {
  const bool has_word_before = at > 0 && text[at - 1] != ' ';
  const bool has_word_behind = at + 1 < text.size() && text[at + 1] != ' ';
  return text[at] == '*' && (has_word_before || has_word_behind);
}

/// The "](" of a link whose "[" is at `at`; npos where it begins none.
size_t end_of_link_text(std::string_view text, size_t at) {
  const size_t end = text[at] == '[' ? text.find(']', at) : std::string_view::npos;
  const bool is_link = end != std::string_view::npos && text.substr(end).starts_with("](");
  return is_link ? end : std::string_view::npos;
}

/// Without the marks of code, emphasis and links.
std::string without_page_marks(std::string_view text) {
  std::string plain;
  bool is_code = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '`') {
      is_code = !is_code;
      continue;
    }
    if (!is_code && is_emphasis(text, i)) continue;
    const size_t end = is_code ? std::string_view::npos : end_of_link_text(text, i);
    if (end == std::string_view::npos) {
      plain += text[i];
    } else {
      plain += text.substr(i + 1, end - i - 1);
      i = std::min(text.find(')', end), text.size() - 1);
    }
  }
  return plain;
}

/// "* " or "12. " in front of an item of a list; "" where there is none.
std::string_view list_mark(std::string_view line) {
  if (line.starts_with("* ")) return line.substr(0, 2);
  const size_t digits = line.find_first_not_of("0123456789");
  if (digits == 0 || digits == std::string_view::npos) return {};
  return line.substr(digits).starts_with(". ") ? line.substr(0, digits + 2) : std::string_view();
}

/// Lays out the Markdown of the finding pages: headings, paragraphs, lists, code by four blanks,
/// tables.
class PageLayout {
 public:
  PageLayout(const TextOptions& options, PageMarks marks)
      : page_(options), keeps_marks_(marks == PageMarks::kKeep) {}

  std::string lay_out(std::string_view markdown) && {
    for_each_line(markdown, [this](std::string_view line) { take(line); });
    flush();
    return std::move(page_).take();
  }

 private:
  void take(std::string_view line) {
    const std::string_view bullet = list_mark(line);
    if (line.empty()) {
      flush();
      page_.blank_line();
    } else if (line.starts_with('#')) {
      flush();
      page_.paragraph(keeps_marks_ ? line : line.substr(line.find_first_not_of("# ")), "",
                      document::Mark::kStrong);
    } else if (line.starts_with("    ")) {
      flush();
      page_.paragraph(line, "");
    } else if (line.starts_with('|')) {
      flush();
      take_row(line);
    } else if (!bullet.empty()) {
      flush();
      lead_ = bullet;
      text_ = line.substr(bullet.size());
    } else {
      text_ += (text_.empty() ? "" : " ") + std::string(trim(line));
    }
  }

  void take_row(std::string_view line) {
    if (keeps_marks_) return page_.paragraph(line, "");
    if (line.starts_with("| -")) return;
    std::string row;
    for (const std::string_view cell : split(line, '|')) {
      if (trim(cell).empty()) continue;
      row += (row.empty() ? "" : ": ") + without_page_marks(trim(cell));
    }
    page_.paragraph("  ", row);
  }

  void flush() {
    if (!text_.empty()) page_.paragraph(lead_, keeps_marks_ ? text_ : without_page_marks(text_));
    lead_.clear();
    text_.clear();
  }

  TextPage page_;
  bool keeps_marks_;
  std::string lead_;  ///< of the paragraph that is being read
  std::string text_;
};

}  // namespace

std::vector<PageMatch> find_pages(std::string_view text) {
  return PageSearch(text).answer();
}

std::vector<CommandRow> find_commands(std::string_view text) {
  return PageSearch(text).commands();
}

std::string render_page(FindingCode code, const TextOptions& options, PageMarks marks) {
  return PageLayout(options, marks).lay_out(finding_page(code));
}

}  // namespace dlprobe
