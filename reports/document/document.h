#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

/// What a person reads, whatever shows it: a tree that is built once from a report (builders.h) and
/// laid out by text.cc, markdown.cc and html.cc, which know nothing of reports. Texts in it are
/// escaped for a terminal already.
namespace dlprobe::document {

/// What a stretch of text is. Verdicts and severities have colours where the format has any.
enum class Mark {
  kPlain,
  kStrong,
  kQuiet,
  kCode,
  kTime,  ///< ISO 8601 in UTC; a terminal shows the time of day alone
  kPass,
  kWarn,
  kFail,
  kUnsure,
  kBreak,  ///< a new line
};

struct Span {
  std::string text;
  Mark mark = Mark::kPlain;
  std::string hint;  ///< a page tells it when it is pointed at
};
using Spans = std::vector<Span>;

inline Span strong(std::string text) {
  return {.text = std::move(text), .mark = Mark::kStrong};
}
inline Span code(std::string text) {
  return {.text = std::move(text), .mark = Mark::kCode};
}

inline Span new_line() {
  return {.text = "\n", .mark = Mark::kBreak};
}

/// Texts, spans and spans of them, one after the other; empty texts are left out.
template <class... Parts>
Spans spans(const Parts&... parts);

/// Who is shown a part of the tree: most parts are for everybody.
enum class Readers : uint8_t { kText = 1, kMarkdown = 2, kHtml = 4, kPages = 6, kAll = 7 };

inline bool is_for(Readers readers, Readers one) {
  return (static_cast<unsigned>(readers) & static_cast<unsigned>(one)) != 0;
}

struct Block;

/// Blocks one below the other.
struct Blocks : std::vector<Block> {
  template <class Content>
  void add(Content content, Readers readers = Readers::kAll);
  /// A paragraph.
  template <class... Parts>
  void say(const Parts&... parts);
};

struct Paragraph {
  Spans text;
  std::string lead;      ///< its first words, which a terminal shows left of all lines
  int lead_columns = 0;  ///< what the lead takes there at least
};

struct Code {
  std::vector<std::string> lines;
  bool is_shell = true;  ///< else lines of a program, whose indentation counts
};

struct Column {
  static constexpr int kOwnWidth = -1;

  std::string head;
  bool is_number = false;
  Readers readers = Readers::kAll;
  /// In a table of lines: the columns that the cell takes left of the text; 0: it is in the text.
  int lead = 0;
  std::string before;  ///< in the text of a line, where the cell is not empty
  std::string after;
};

struct Row {
  std::vector<Spans> cells;
  int depth = 0;  ///< below another row
};

/// A cell "-" or "" is empty; a column of empty cells is left out, but for the first `keep`.
struct Table {
  std::vector<Column> columns;
  size_t keep = 1;
  bool is_lines = false;  ///< on a terminal: each row a paragraph, not a grid
  std::vector<Row> rows;

  template <class... Cells>
  Row& add(const Cells&... cells) {
    return rows.emplace_back(Row{.cells = {spans(cells)...}});
  }
};

/// A table of which the first columns are names, the others numbers.
inline Table table_of(std::vector<std::string> heads, size_t names, size_t keep) {
  Table table = {.keep = keep};
  for (std::string& head : heads)
    table.columns.push_back({.head = std::move(head), .is_number = table.columns.size() >= names});
  return table;
}

struct Item {
  Spans text;
  Blocks blocks;
};

enum class ListKind {
  kPlain,
  kBullets,  ///< on a terminal too
  kOrdered,
  kSteps,   ///< each follows from the one before
  kFrames,  ///< of a stack: quiet ones are native, a warning is a remark
};

struct List {
  ListKind kind = ListKind::kPlain;
  std::vector<Item> items;

  template <class... Parts>
  Item& add(const Parts&... parts);
};

/// Blocks under a name: "Proof". On a terminal beside it, if it has `columns` there.
struct Field {
  Spans name;
  int columns = 0;
  Blocks blocks;
};

enum class Fold { kNone, kOpen, kClosed };

/// Blocks that belong together, under a title: a finding, a process. A page may fold them.
struct Card {
  Spans title;
  Fold fold = Fold::kNone;
  std::string id;
  Blocks blocks;
};

/// Who waits for whom, to be drawn; the chain to the root cause comes first.
struct Graph {
  struct Node {
    std::string label;
    std::string activity;  ///< "stuck for 5.0 s"
    std::string place;     ///< "train.py:12 in Images.__getitem__"
    size_t count = 1;      ///< how many alike it stands for
    bool is_thread = false;
    bool in_chain = false;
    bool is_root_cause = false;
  };
  struct Edge {
    size_t from = 0;
    size_t to = 0;
    std::string relation;
    bool in_chain = false;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  size_t left_out = 0;  ///< nodes
};

using Series = std::vector<std::optional<double>>;

/// From this share of a limit on, a value is near it.
inline constexpr double kNearLimit = 0.8;

struct Chart {
  /// A line that a value followed.
  struct Trend {
    double from_s = 0;
    double to_s = 0;
    double begin = 0;
    double end = 0;
    std::string name;
  };
  std::string title;
  std::string unit;
  std::vector<std::pair<std::string, Series>> series;
  std::optional<double> limit;
  std::string limit_name;
  std::optional<Trend> trend;
  std::string note;  ///< what is to be known of it in words
  bool is_note_bad = false;
  bool is_of_cause = false;  ///< it shows what the first finding says
};

/// Values over the same times, to be drawn below each other.
struct Charts {
  struct Event {
    double at_s = 0;
    bool is_bad = false;
  };
  struct Failure {
    double at_s = 0;
    std::string text;
  };
  std::vector<double> times_s;
  std::vector<double> runs;  ///< of each time: which run
  std::vector<Chart> charts;
  std::vector<Event> events;
  std::optional<Failure> failure;
};

/// Many of a kind, each with its workers, coloured by what they do.
struct Grid {
  enum class Tone { kWaits, kWorks, kIdle, kLate, kBad, kAbsent };
  struct Cell {
    std::string word;
    std::string time;  ///< for how long; empty: not known
    Tone tone = Tone::kIdle;
  };
  struct Row {
    std::string name;
    Cell cell;
    std::string hint;  ///< a sentence
    std::vector<Cell> workers;
  };
  std::vector<Row> rows;
};

struct Block {
  std::variant<Paragraph, Code, Table, List, Field, Card, Graph, Charts, Grid> content;
  Readers readers = Readers::kAll;
};

template <class Content>
void Blocks::add(Content content, Readers readers) {
  push_back({.content = std::move(content), .readers = readers});
}
template <class... Parts>
void Blocks::say(const Parts&... parts) {
  add(Paragraph{.text = spans(parts...)});
}

template <class... Parts>
Item& List::add(const Parts&... parts) {
  return items.emplace_back(Item{.text = spans(parts...)});
}

template <class... Parts>
Spans spans(const Parts&... parts) {
  Spans all;
  const auto add = [&all]<class Part>(const Part& part) {
    if constexpr (std::is_same_v<Part, Spans>) {
      all.insert(all.end(), part.begin(), part.end());
    } else if constexpr (std::is_same_v<Part, Span>) {
      if (!part.text.empty()) all.push_back(part);
    } else if (std::string text(part); !text.empty()) {
      all.push_back({.text = std::move(text)});
    }
  };
  (add(parts), ...);
  return all;
}

struct Section {
  std::string id;
  std::string title;
  int weight = 0;  ///< pages show the lightest first, a terminal in the order of the tree
  Readers readers = Readers::kAll;
  bool is_titled_in_text = true;
  Blocks blocks;
};

struct Document {
  Span verdict;          ///< "FAIL"; empty: none
  std::string headline;  ///< after the verdict
  Spans where;           ///< machine, time, version
  std::string more;      ///< a terminal's last line
  std::vector<Section> sections;
};

/// The texts alone, one after the other; a time as the time of day.
std::string text_of(const Spans& spans);

/// "worker 4711", "worker 4711 (× 8 alike)".
std::string name_of(const Graph::Node& node);

/// The most that was seen; 0 where nothing was.
double highest(const Series& series);
double highest(const Chart& chart);

/// The spans between the line breaks.
std::vector<Spans> lines_of(const Spans& spans);

/// The table as `reader` is shown it: without the columns that are not for it or are empty.
Table table_for(const Table& table, Readers reader);

/// The sections that `reader` is shown, in the order of a page.
std::vector<const Section*> page_order(const Document& document, Readers reader);

}  // namespace dlprobe::document
