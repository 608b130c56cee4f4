#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/shape.h"

namespace dlprobe {

/// What is known of a text in a document.
struct TextPlace {
  report::Holds holds = report::Holds::kText;
  std::string_view path;  ///< the path that stands in the same object: of a function its file
};

/// What is made of the texts of a document. Values of a set that the shape lists, and texts of a
/// form, are none.
struct TextChange {
  std::function<std::string(const TextPlace& place, const std::string& text)> text;
  /// Of a list of texts that is the command line of a process.
  std::function<std::vector<std::string>(const std::vector<std::string>& words)> command;
};

/// Fills `into`, an empty object of that shape, with what `from` has, its texts changed: in the
/// order in which a file has them.
void change_texts(const Shape& shape, const void* from, void* into, const TextChange& change);

}  // namespace dlprobe
